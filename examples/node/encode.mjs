// Encodes the rows of a .npy file with an exported encoder.
//
//   npm install
//   node encode.mjs encoder.onnx rows.npy codes.npy
//
// Rows are raw features or pixels, float32 or uint8, [n, d]. Normalisation,
// threshold and packing are inside encoder.onnx.

import { readFileSync, writeFileSync } from "node:fs";
import * as ort from "onnxruntime-node";
import { formatNpy, parseNpy } from "./npy.mjs";

const BATCH = 1024;

/** Packed codes of raw rows: Float32Array [n * d] -> Uint8Array. */
export async function encode(session, rows, width) {
  const parts = [];
  for (let start = 0; start < rows.length; start += BATCH * width) {
    const part = rows.subarray(start, start + BATCH * width);
    const x = new ort.Tensor("float32", part, [part.length / width, width]);
    const { codes } = await session.run({ x }, ["codes"]);
    parts.push(codes.data);
  }
  return Buffer.concat(parts);
}

async function main([encoder, source, target]) {
  if (!target) {
    throw new Error("usage: node encode.mjs encoder.onnx rows.npy codes.npy");
  }
  const session = await ort.InferenceSession.create(encoder);
  const width = session.inputMetadata[0].shape[1];
  const { data, shape } = parseNpy(readFileSync(source));
  if (shape.length !== 2 || shape[1] !== width) {
    throw new Error(`Rows must be [n, ${width}], as the encoder was ` +
      `trained. Received: [${shape}].`);
  }
  const rows = Float32Array.from(data);
  if (!rows.every(Number.isFinite)) {
    throw new Error("Rows must be finite; there is NaN or infinity.");
  }
  const codes = await encode(session, rows, width);
  const bytes = codes.length / shape[0];
  writeFileSync(target, formatNpy(codes, [shape[0], bytes]));
  console.log(`${shape[0]} codes of ${bytes} bytes; the first is ` +
    codes.subarray(0, bytes).toString("hex"));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
});
