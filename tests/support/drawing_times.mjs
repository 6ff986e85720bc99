// Draws on the search page in headless Chromium, and times what it shows.
//
//   node drawing_times.mjs PAGE CHROMIUM DRAWINGS
//
// Prints JSON: milliseconds from each move of the pointer until the nearest
// items are on the screen, with their pictures, and how long the page itself
// says that it took.

import { launch } from "./browser.mjs";

const [url, executablePath, drawings] = process.argv.slice(2);
const browser = await launch(executablePath);

// In the page: the time of the last move, and of what it changed.
function watch() {
  window.times = [];
  window.stated = [];
  let moved = 0;
  document.querySelector("#pad").addEventListener("pointermove",
    (event) => { moved = event.timeStamp; }, true);
  const hits = document.querySelector("#hits");
  new MutationObserver(async () => {
    const from = moved;
    const images = [...hits.querySelectorAll("img")];
    if (!from || !images.length) return;
    await Promise.all(images.map((image) => image.decode().catch(() => {})));
    // A task after the next frame runs when it has been painted.
    requestAnimationFrame(() => setTimeout(() => {
      window.times.push(performance.now() - from);
      window.stated.push(Number(document.documentElement.dataset.spent));
    }));
  }).observe(hits, { childList: true });
}

try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(url);
  await page.waitForSelector("html[data-state=ready]");
  await page.evaluate(watch);
  const box = await page.locator("#pad").boundingBox();
  for (let drawing = 0; drawing < Number(drawings); drawing += 1) {
    await page.click("#clear");
    for (let piece = 0; piece <= 10; piece += 1) {
      const angle = (0.4 + 0.05 * drawing) * piece;
      await page.mouse.move(box.x + box.width * (0.5 + 0.3 * Math.sin(angle)),
        box.y + box.height * (0.2 + 0.06 * piece));
      if (!piece) await page.mouse.down();
      // Each move is answered before the next.
      await page.waitForTimeout(150);
    }
    await page.mouse.up();
  }
  console.log(JSON.stringify(await page.evaluate(
    () => ({ times: window.times, stated: window.stated }))));
} finally {
  await browser.close();
}
