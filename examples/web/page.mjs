// Draws the embedded digits with their codes.

import { DIGITS } from "./digits.mjs";
import { distance, encode, hex, load } from "./encoder.mjs";

const status = document.querySelector("#status");
const body = document.querySelector("tbody");

function draw(name, width, height, shade) {
  const canvas = document.createElement("canvas");
  canvas.className = name;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i += 1) {
    image.data.set([...Array(3).fill(shade(i)), 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function bitsOf(code, count) {
  const canvas = draw("bits", count, 1,
    (i) => ((code[i >> 3] >> (7 - (i & 7))) & 1 ? 40 : 220));
  canvas.style.width = `${6 * count}px`;
  canvas.setAttribute("aria-hidden", "true");
  return canvas;
}

function addRow(digit, code, bits) {
  const row = body.insertRow();
  row.tabIndex = 0;
  row.dataset.code = hex(code);
  row.insertCell().append(
    draw("digit", 8, 8, (i) => 255 - 15.9 * digit.pixels[i]));
  row.insertCell().textContent = digit.label;
  const text = document.createElement("code");
  text.textContent = hex(code);
  row.insertCell().append(text, bitsOf(code, bits));
  row.insertCell().className = "number";
  return row;
}

function choose(rows, codes, chosen) {
  rows.forEach((row, i) => {
    row.setAttribute("aria-selected", String(i === chosen));
    row.cells[3].textContent = distance(codes[i], codes[chosen]);
  });
}

async function main() {
  const encoder = await load("encoder.onnx");
  const pixels = DIGITS.flatMap((digit) => digit.pixels);
  if (encoder.width !== DIGITS[0].pixels.length) {
    throw new Error(`this page shows images of ${DIGITS[0].pixels.length} ` +
      `pixels, and encoder.onnx takes rows of ${encoder.width}. Export a ` +
      "run of the data set `digits`.");
  }
  const start = performance.now();
  const codes = await encode(encoder, Float32Array.from(pixels));
  const spent = performance.now() - start;
  const rows = DIGITS.map((digit, i) => addRow(digit, codes[i], encoder.bits));
  rows.forEach((row, i) => {
    row.addEventListener("click", () => choose(rows, codes, i));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") choose(rows, codes, i);
    });
  });
  choose(rows, codes, 0);
  document.querySelector("table").hidden = false;
  status.textContent = `${codes.length} codes of ${encoder.bits} bits in ` +
    `${spent.toFixed(1)} ms.`;
  document.documentElement.dataset.ready = "yes";
}

main().catch((error) => {
  status.className = "error";
  status.textContent = `The codes cannot be shown: ${error.message}`;
  document.documentElement.dataset.ready = "error";
});
