// Opens the search page in headless Chromium; ends when neighbours are shown.
//
//   node first_neighbours.mjs PAGE CHROMIUM
//
// Prints how many there are, and what the page says of them.

import { createRequire } from "node:module";

const [url, executablePath] = process.argv.slice(2);
const require = createRequire(`${process.cwd()}/`);
const { chromium } = require("playwright-core");

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync"],
});
try {
  const page = await browser.newPage();
  await page.goto(url);
  await page.waitForSelector("#hits .hit");
  // Pictures on the screen, not only places for them.
  await page.waitForFunction(() => [...document.querySelectorAll("#hits img")]
    .every((image) => image.complete && image.naturalWidth));
  const count = await page.locator("#hits .hit").count();
  console.log(`${count} neighbours: ${await page.textContent("#status")}`);
} finally {
  await browser.close();
}
