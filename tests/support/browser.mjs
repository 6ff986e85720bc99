// Headless Chromium that asks nobody but the page under test.

import { createRequire } from "node:module";

// playwright-core is installed where node was started.
const { chromium } = createRequire(`${process.cwd()}/`)("playwright-core");

/** A browser from the file of Chromium. */
export const launch = (executablePath) => chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync"],
});
