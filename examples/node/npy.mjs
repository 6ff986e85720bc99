// Reads and writes NumPy's .npy files: C order, float32 or uint8.

const KINDS = { "<f4": Float32Array, "|u1": Uint8Array };

/** Parses the bytes of a .npy file: {data, shape}. */
export function parseNpy(buffer) {
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.length);
  if (view.getUint32(0) !== 0x934e554d) {
    throw new Error("The file must be a .npy file, as np.save writes it.");
  }
  const long = buffer[6] > 1;
  const start = long ? 12 : 10;
  const length = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = buffer.subarray(start, start + length).toString("latin1");
  const kind = header.match(/'descr': '([^']+)'/)?.[1];
  const shape = header.match(/'shape': \(([^)]*)\)/)?.[1]
    .split(",").filter((part) => part.trim()).map(Number);
  if (!(kind in KINDS) || header.includes("'fortran_order': True")) {
    throw new Error(
      `The array must be float32 or uint8 in C order. Received: ${header}`);
  }
  // A typed array must begin at a multiple of its element's size: copy.
  const bytes = Uint8Array.from(buffer.subarray(start + length));
  return { data: new KINDS[kind](bytes.buffer), shape };
}

/** The bytes of a .npy file that holds a uint8 array. */
export function formatNpy(data, shape) {
  const text = `{'descr': '|u1', 'fortran_order': False, ` +
    `'shape': (${shape.join(", ")}), }`;
  const padded = text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11);
  const header = Buffer.from(`\x93NUMPY\x01\x00\0\0${padded}\n`, "latin1");
  header.writeUInt16LE(padded.length + 1, 8);
  return Buffer.concat([header, data]);
}
