// Where the page gets its answers without a service: files beside it, and the
// encoder in onnxruntime-web.

import * as ort from "./ort/ort.wasm.min.mjs";

// The .wasm file lies beside the script. Threads need cross-origin isolation.
ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;
ort.env.wasm.numThreads = 1;

const BITS_IN = Uint8Array.from({ length: 256 }, (_, byte) => {
  let count = 0;
  for (let rest = byte; rest; rest &= rest - 1) count += 1;
  return count;
});
let data;

export const where = "The network runs in this page; nothing is sent.";
// Filters are a language of the service.
export const filters = false;

export function useToken() {}

async function bytes(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name} must lie beside the page: ${answer.status}.`);
  return new Uint8Array(await answer.arrayBuffer());
}

export async function about() {
  const facts = JSON.parse(new TextDecoder().decode(await bytes("site.json")));
  const [codes, embeddings, pictures, session] = await Promise.all([
    bytes("codes.bin"), bytes("embeddings.bin"),
    facts.pictures ? bytes("pictures.bin") : null,
    ort.InferenceSession.create("encoder.onnx"),
  ]);
  const { payloads, ids, ...rest } = facts;
  const places = new Map(ids.map((id, place) => [id, place]));
  data = { codes, embeddings, pictures, session, payloads, ids, places, facts,
    width: codes.length / ids.length };
  return rest;
}

export async function map() {
  return JSON.parse(new TextDecoder().decode(await bytes("map.json")));
}

export const hex = (code) =>
  Array.from(code, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Codes of rows: Float32Array [n * width] -> { codes, embedding }. */
export async function encode(row) {
  const width = data.facts.width;
  const x = new ort.Tensor("float32", row, [row.length / width, width]);
  const { codes, embedding } = await data.session.run({ x }, ["codes", "embedding"]);
  return { codes: codes.data, embedding: embedding.data };
}

export async function search({ row, id }, { k, radius, rerank }) {
  const { width, ids, facts: { bits } } = data;
  let [code, embedding] = [null, null];
  if (row) ({ codes: code, embedding } = await encode(row));
  else {
    const place = data.places.get(id);
    code = data.codes.subarray(place * width, (place + 1) * width);
    embedding = data.embeddings.subarray(place * bits, (place + 1) * bits);
  }
  const { nearest, total } = scan(code, Math.max(k, rerank), radius ?? bits);
  let hits = nearest.map(({ place, distance }) =>
    ({ id: ids[place], place, distance, payload: data.payloads[place] }));
  if (rerank) {
    for (const hit of hits) hit.similarity = cosine(embedding, hit.place * bits, bits);
    hits.sort((a, b) => b.similarity - a.similarity);
  }
  hits = hits.slice(0, k);
  return { code: hex(code), hits, ...(radius === null ? {} : { total }) };
}

/** The nearest codes, by counting how many are at each distance. */
function scan(code, most, radius) {
  const { codes, width } = data;
  const count = codes.length / width;
  const distances = new Uint16Array(count);
  const at = new Uint32Array(8 * width + 1);
  for (let i = 0, p = 0; i < count; i += 1) {
    let sum = 0;
    for (let b = 0; b < width; b += 1, p += 1) sum += BITS_IN[codes[p] ^ code[b]];
    distances[i] = sum;
    at[sum] += 1;
  }
  let [total, last, held] = [0, -1, 0];
  for (let d = 0; d <= Math.min(radius, 8 * width); d += 1) {
    total += at[d];
    if (held < most) { held += at[d]; last = d; }
  }
  const nearest = [];
  for (let i = 0; i < count; i += 1) {
    if (distances[i] <= last) nearest.push({ place: i, distance: distances[i] });
  }
  nearest.sort((a, b) => a.distance - b.distance);
  return { nearest: nearest.slice(0, most), total };
}

function cosine(embedding, start, bits) {
  let [dot, a, b] = [0, 0, 0];
  for (let i = 0; i < bits; i += 1) {
    const [x, y] = [embedding[i], data.embeddings[start + i]];
    dot += x * y;
    a += x * x;
    b += y * y;
  }
  return dot / (Math.sqrt(a * b) || 1);
}

export async function item(id) {
  const place = data.places.get(id);
  const { width } = data;
  return { id, code: hex(data.codes.subarray(place * width, (place + 1) * width)),
    payload: data.payloads[place] };
}

export async function list(after) {
  const found = [];
  for (const [place, id] of data.ids.entries()) {
    if (id > after && found.length < 50) found.push({ id, payload: data.payloads[place] });
  }
  return found;
}

export async function picture(id) {
  const [height, width, channels] = data.facts.image_shape;
  const size = height * width * channels;
  const pixels = data.pictures.subarray(data.places.get(id) * size);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < height * width; i += 1) {
    for (let c = 0; c < 3; c += 1) {
      image.data[4 * i + c] = pixels[i * channels + (channels === 1 ? 0 : c)];
    }
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}
