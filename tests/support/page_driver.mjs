// Uses the search page in headless Chromium, as a person would.
//
//   node page_driver.mjs PAGE CHROMIUM OUT.json SHOTS [PICTURE] [ROWS.f32]
//
// PICTURE is a file to open; ROWS are raw rows that the page itself encodes.

import { readFileSync, writeFileSync } from "node:fs";
import { launch } from "./browser.mjs";

const [url, executablePath, out, shots, picture, rows] = process.argv.slice(2);
const browser = await launch(executablePath);
const result = { errors: [] };

async function open(options) {
  const page = await browser.newPage(options);
  page.setDefaultTimeout(60000);
  page.on("pageerror", (error) => result.errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") result.errors.push(message.text());
  });
  await page.goto(url);
  await page.waitForSelector("html[data-state=ready]");
  return page;
}

// What the page shows, once the answer to `action` is there.
async function after(page, action) {
  await page.evaluate(() => { delete document.documentElement.dataset.state; });
  await action();
  await page.waitForSelector("html[data-state=shown]");
  // A later answer replaces an earlier one within a frame or two.
  await page.waitForTimeout(150);
  return page.evaluate(() => ({
    code: document.querySelector("#hex").textContent,
    barcode: [...document.querySelectorAll("#barcode i")].map((bit) =>
      Number(bit.classList.contains("on"))).join(""),
    hits: [...document.querySelectorAll("#hits .hit")].map((hit) => ({
      id: Number(hit.dataset.id), distance: Number(hit.dataset.distance),
      text: hit.textContent, picture: Boolean(hit.querySelector("img")?.src),
    })),
    status: document.querySelector("#status").textContent,
    place: document.querySelector("#place").textContent,
    spent: Number(document.documentElement.dataset.spent),
    overflow: document.documentElement.scrollWidth - innerWidth,
  }));
}

// Drops a file where a person would.
async function drop(page, path) {
  const data = readFileSync(path).toString("base64");
  const dataTransfer = await page.evaluateHandle((text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], "dropped.png", { type: "image/png" }));
    return transfer;
  }, data);
  await page.dispatchEvent("#pad", "drop", { dataTransfer });
}

async function draw(page) {
  const box = await page.locator("#pad").boundingBox();
  const at = (x, y) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(0.5, 0.15));
  await page.mouse.down();
  for (let y = 0.15; y <= 0.86; y += 0.05) await page.mouse.move(...at(0.5, y));
  await page.mouse.up();
}

try {
  const page = await open({ viewport: { width: 1280, height: 900 } });
  result.summary = await page.textContent("#summary");
  const isDrawn = await page.isVisible("#pad");
  result.examples = await page.locator("#hits .hit").count();
  if (isDrawn) {
    // The example is gone when a stroke begins.
    result.drawn = await after(page, () => draw(page));
    result.ink = await page.evaluate(() => {
      const { data } = document.querySelector("#pad").getContext("2d")
        .getImageData(0, 0, 280, 280);
      return data.filter((value, i) => i % 4 === 3 && value > 127).length / 280 ** 2;
    });
    await page.click("#clear");
    result.cleared = await page.locator("#hits .hit").count();
    // The same by keys: down to the top of the stroke, pen down, down again.
    result.keys = await after(page, async () => {
      await page.focus("#pad");
      await page.keyboard.press("Space");
      for (let i = 0; i < 10; i += 1) await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Space");
    });
    result.dropped = await after(page, () => drop(page, picture));
    await page.click("#clear");
    result.opened = await after(page, () => page.setInputFiles("#file", picture));
  } else {
    result.chosen = await after(page, () => page.click("#list button >> nth=3"));
  }
  result.near = await after(page, async () => {
    await page.focus("#radius");
    await page.keyboard.press("Home");
  });
  result.far = await after(page, () => page.keyboard.press("End"));
  if (await page.isVisible("#filter")) {
    result.filtered = await after(page, async () => {
      await page.fill("#filter", "number < 50 or price < 50");
      await page.press("#filter", "Enter");
    });
    await after(page, async () => {
      await page.fill("#filter", "");
      await page.press("#filter", "Enter");
    });
  }
  result.neighbour = await after(page, async () => {
    await page.focus("#hits .hit >> nth=1");
    await page.keyboard.press("Enter");
  });
  result.mapped = await after(page, () =>
    page.click("#map", { position: { x: 200, y: 100 } }));
  result.another = await after(page, () => page.click("#another"));
  await page.screenshot({ path: `${shots}-desk.png` });
  if (rows) {
    const numbers = [...new Float32Array(new Uint8Array(readFileSync(rows)).buffer)];
    result.codes = await page.evaluate(async (values) => {
      const { encode, hex } = await import("./local.mjs");
      return hex((await encode(Float32Array.from(values))).codes);
    }, numbers);
  }
  const phone = await open({ viewport: { width: 360, height: 740 }, colorScheme: "dark" });
  result.phone = await after(phone, () => phone.click("#another"));
  result.paper = await phone.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await phone.screenshot({ path: `${shots}-phone.png`, fullPage: true });
} finally {
  await browser.close();
}
writeFileSync(out, JSON.stringify(result));
