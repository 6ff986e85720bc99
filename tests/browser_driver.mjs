// Opens the example page in headless Chromium and encodes rows in it.
//
//   node browser_driver.mjs PAGE CHROMIUM OUT.json SHOT.png CASE...
//
// CASE is the stem of CASE.onnx and CASE.f32 beside the page.

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const [page_url, executablePath, out, png, ...cases] = process.argv.slice(2);
const require = createRequire(`${process.cwd()}/`);
const { chromium } = require("playwright-core");

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync"],
});
const result = { errors: [], cases: {} };
try {
  const page = await browser.newPage({ viewport: { width: 800, height: 900 } });
  page.on("pageerror", (error) => result.errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") result.errors.push(message.text());
  });
  await page.goto(page_url);
  await page.waitForSelector("html[data-ready]", { timeout: 60000 });
  result.status = await page.textContent("#status");
  result.codes = await page.$$eval("tbody tr",
    (rows) => rows.map((row) => row.dataset.code));
  if (result.codes.length) {
    await page.click("tbody tr:nth-child(3)");
    result.apart = await page.$$eval("tbody tr",
      (rows) => rows.map((row) => Number(row.cells[3].textContent)));
  }
  await page.screenshot({ path: png, fullPage: true });
  for (const name of cases) {
    result.cases[name] = await page.evaluate(async (stem) => {
      const { encode, hex, load } = await import("./encoder.mjs");
      const encoder = await load(`${stem}.onnx`);
      const answer = await fetch(`${stem}.f32`);
      const rows = new Float32Array(await answer.arrayBuffer());
      return (await encode(encoder, rows)).map(hex).join("");
    }, name);
  }
} finally {
  await browser.close();
}
writeFileSync(out, JSON.stringify(result));
