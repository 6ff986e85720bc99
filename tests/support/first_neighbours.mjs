// Opens the search page in headless Chromium; ends when neighbours are shown.
//
//   node first_neighbours.mjs PAGE CHROMIUM
//
// Prints how many there are, and what the page says of them.

import { launch } from "./browser.mjs";

const [url, executablePath] = process.argv.slice(2);
const browser = await launch(executablePath);
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
