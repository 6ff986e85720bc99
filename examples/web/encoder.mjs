// Codes in the browser: an exported encoder in onnxruntime-web.

import * as ort from "./ort/ort.wasm.min.mjs";

// The .wasm file lies beside the script. Threads need cross-origin isolation
// (COOP and COEP headers), so a page without it runs on one.
ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;
ort.env.wasm.numThreads = self.crossOriginIsolated ? 0 : 1;

const BATCH = 1024;

/** Loads encoder.onnx from an address. */
export async function load(url) {
  const session = await ort.InferenceSession.create(url);
  const bits = session.outputMetadata.find((output) => output.name === "bits");
  return {
    session, width: session.inputMetadata[0].shape[1], bits: bits.shape[1],
  };
}

/** Packed codes of raw rows: Float32Array [n * d] -> one Uint8Array a row. */
export async function encode({ session, width }, rows) {
  if (rows.length === 0 || rows.length % width) {
    throw new Error(`Rows must be ${width} numbers long, as the encoder was ` +
      `trained. Received: ${rows.length} numbers.`);
  }
  if (!rows.every(Number.isFinite)) {
    throw new Error("Rows must be finite; there is NaN or infinity.");
  }
  const codes = [];
  for (let start = 0; start < rows.length; start += BATCH * width) {
    const part = rows.subarray(start, start + BATCH * width);
    const x = new ort.Tensor("float32", part, [part.length / width, width]);
    const found = (await session.run({ x }, ["codes"])).codes;
    const bytes = found.dims[1];
    for (let at = 0; at < found.data.length; at += bytes) {
      codes.push(found.data.slice(at, at + bytes));
    }
  }
  return codes;
}

/** Number of bits in which two codes differ. */
export function distance(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) {
    for (let bits = a[i] ^ b[i]; bits; bits &= bits - 1) sum += 1;
  }
  return sum;
}

/** A code as hexadecimal digits. */
export function hex(code) {
  return Array.from(code, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
