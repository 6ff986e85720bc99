// The page: a query, its code, the nearest items, and a map of the codes.

import { brightness, drawable, onBlack, pictureToRow, strokesToRow } from "./drawing.mjs";
import { CodeMap, describe, make, palette, plural, showCode, tile } from "./views.mjs";

const source = await import(
  document.documentElement.dataset.source === "local" ? "./local.mjs" : "./remote.mjs");
const find = (id) => document.getElementById(id);
const HITS = 16;
const RERANK = 200;

let facts;
let map = null;
let pad = null;
let colors = new Map();
let query = null;
let code = null;
const pictures = new Map();
// One question at a time: what changes meanwhile is asked next.
let asking = false;
let again = false;

function fail(error) {
  find("status").textContent = error.message;
  find("status").classList.add("error");
  find("token-form").hidden = error.status !== 401;
  document.documentElement.dataset.state = "error";
}

function pictureOf(id) {
  if (!facts.pictures) return null;
  if (!pictures.has(id)) pictures.set(id, source.picture(id));
  return pictures.get(id);
}

function radius() {
  const { value, max } = find("radius");
  return value === max ? null : Number(value);
}

/** Asks for what is near the query, now or after the running question. */
async function ask(start = performance.now()) {
  if (!query) return;
  if (asking) { again = true; return; }
  asking = true;
  try {
    const rerank = facts.rerank && find("rerank").checked ? RERANK : 0;
    const asked = query;
    const found = await source.search(asked, { k: HITS, radius: radius(), rerank });
    if (asked === query) show(found, performance.now() - start);
  } catch (error) {
    fail(error);
  } finally {
    asking = false;
    if (again) { again = false; ask(); }
  }
}

function show(found, spent) {
  code = found.code;
  showCode(find("barcode"), code, facts.bits);
  find("hex").textContent = code;
  const options = { colors, label: facts.label, choose, compare };
  const tiles = found.hits.map((hit) => tile(hit, { ...options, picture: pictureOf(hit.id) }));
  if (!tiles.length) {
    tiles.push(make("li", { className: "empty",
      textContent: "No item is this near. Move the radius to the right." }));
  }
  find("hits").replaceChildren(...tiles);
  const count = found.total === undefined ? `${plural(found.hits.length, "item")}`
    : `${plural(found.total, "item")} within ${plural(radius(), "bit")}`;
  find("status").textContent = `${count}, ${Math.max(1, Math.round(spent))} ms`;
  find("status").classList.remove("error");
  if (map) {
    const near = map.place(code, found.hits);
    find("place").textContent = near == null ? "" : `The query falls among ${near}.`;
  }
  compare(null);
  document.documentElement.dataset.state = "shown";
  document.documentElement.dataset.spent = spent.toFixed(1);
}

/** Shows in which bits a neighbour differs. */
async function compare(hit) {
  const text = find("difference");
  if (!hit) {
    if (code) showCode(find("barcode"), code, facts.bits);
    text.textContent = code ? "Point at a neighbour to see in which bits it differs."
      : "The sign of each output of the network is one bit.";
    return;
  }
  const other = await source.item(hit.id).catch(() => null);
  if (!other || !code) return;
  showCode(find("barcode"), code, facts.bits, other.code);
  text.textContent = hit.distance ? `Item ${hit.id} differs in ${plural(hit.distance, "bit")}.`
    : `Item ${hit.id} has the same code.`;
}

/** Makes an item the query. */
async function choose(id) {
  query = { id };
  if (pad) pad.clear();
  find("hint").hidden = true;
  const { payload } = await source.item(id);
  const address = await pictureOf(id);
  const image = find("chosen").querySelector("img");
  image.hidden = !address;
  if (address) image.src = address;
  image.alt = `Item ${id}`;
  find("chosen").querySelector("figcaption").textContent = `Item ${id}: ${describe(payload)}`;
  find("chosen").hidden = false;
  if (pad && address) {
    const picture = new Image();
    picture.src = address;
    await picture.decode().then(() => pad.show(picture), () => {});
    find("chosen").hidden = true;
    find("hint").hidden = true;
  }
  for (const button of find("list").querySelectorAll("button")) {
    button.ariaPressed = String(Number(button.dataset.id) === id);
  }
  await ask();
}

function clear() {
  query = code = null;
  if (pad) pad.clear();
  find("hint").hidden = false;
  find("hits").replaceChildren(emptyHint());
  find("barcode").replaceChildren();
  find("barcode").setAttribute("aria-label", "No code yet");
  for (const id of ["hex", "status", "place"]) find(id).textContent = "";
  compare(null);
  if (map) map.forget();
  document.documentElement.dataset.state = "ready";
}

function emptyHint() {
  const text = pad ? "Draw something, drop a picture, or try an item: what is near it comes here."
    : "Choose an item: what is near it comes here.";
  return make("li", { className: "empty", textContent: text });
}

/** The drawing as a query. */
function drawn() {
  const start = performance.now();
  find("hint").hidden = true;
  find("chosen").hidden = true;
  const row = facts.ink ? strokesToRow(brightness(find("pad")), facts)
    : pictureToRow(find("pad"), facts);
  if (!row || !row.some((value) => value > 0)) return;
  query = { row };
  ask(start);
}

async function opened(file) {
  try {
    const image = await createImageBitmap(file);
    if (facts.ink) {
      pad.show(darkened(image));
    } else {
      pad.show(image, true);
    }
    drawn();
  } catch {
    fail(new Error(`${file.name} must be a picture that this browser can show.`));
  }
}

/** Strokes of a photograph or scan, bright on black. */
function darkened(image) {
  const canvas = make("canvas", { width: 280, height: 280 });
  const context = canvas.getContext("2d");
  const side = Math.max(image.width, image.height);
  const [w, h] = [280 * image.width / side, 280 * image.height / side];
  const small = make("canvas", { width: Math.round(w) || 1, height: Math.round(h) || 1 });
  small.getContext("2d").drawImage(image, 0, 0, small.width, small.height);
  const gray = onBlack(brightness(small));
  const pixels = context.createImageData(small.width, small.height);
  gray.data.forEach((value, i) => {
    // Paper is never quite white.
    const shade = 255 * Math.max(0, Math.min(1, (value - 0.25) / 0.6));
    pixels.data.set([shade, shade, shade, 255], 4 * i);
  });
  context.putImageData(pixels, (280 - small.width) / 2, (280 - small.height) / 2);
  return canvas;
}

function startPad() {
  const canvas = find("pad");
  let due = false;
  // Many moves of the pointer come between two frames.
  pad = drawable(canvas, facts.image_shape[1], () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; drawn(); });
  });
  if (!facts.ink) find("hint").textContent = "Drop a picture here";
  for (const id of ["pad-area", "clear", "open"]) find(id).hidden = false;
  find("clear").addEventListener("click", clear);
  find("file").addEventListener("change", ({ target }) => {
    if (target.files[0]) opened(target.files[0]);
    target.value = "";
  });
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    canvas.classList.add("over");
  });
  document.addEventListener("dragleave", () => canvas.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    canvas.classList.remove("over");
    if (event.dataTransfer.files[0]) opened(event.dataTransfer.files[0]);
  });
}

async function startList() {
  const items = await source.list(-1);
  find("list").replaceChildren(...items.map(({ id, payload }) => {
    const button = make("button", { type: "button" }, make("span",
      { className: "payload", textContent: `${id}: ${describe(payload)}` }));
    button.dataset.id = id;
    button.addEventListener("click", () => choose(id));
    return make("div", { role: "listitem" }, button);
  }));
  find("list").hidden = false;
  return items;
}

function startRadius() {
  const slider = find("radius");
  slider.max = Math.max(2, Math.min(facts.bits, 32));
  slider.value = slider.max;
  slider.addEventListener("input", () => {
    const value = radius();
    find("radius-text").textContent = value === null ? "any" : plural(value, "bit");
    ask();
  });
}

async function startMap() {
  const drawing = await source.map();
  find("map-card").hidden = false;
  map = new CodeMap(find("map"), drawing, facts.bits, choose);
  colors = palette(drawing.labels);
  find("legend").replaceChildren(...[...colors].slice(0, 30).map(([label, color]) => {
    const swatch = make("span", { className: "swatch" });
    swatch.style.background = color;
    return make("li", {}, swatch, String(label));
  }));
}

async function start() {
  facts = await source.about();
  document.title = `${facts.title}: search by codes`;
  find("title").textContent = facts.title;
  find("summary").textContent = `${plural(facts.items, "item")}, codes of ${facts.bits} bits. ` +
    "Items whose codes differ in few bits are near.";
  find("where").textContent = source.where;
  find("token-form").hidden = true;
  if (facts.image_shape) startPad();
  find("hits").classList.toggle("plain", !facts.pictures);
  find("rerank-field").hidden = !facts.rerank;
  find("rerank").addEventListener("change", () => ask());
  startRadius();
  let ids = [];
  if (facts.map) {
    await startMap();
    ids = map.ids;
  }
  if (!facts.pictures) ids = (await startList()).map(({ id }) => id);
  else if (!ids.length) ids = (await source.list(-1)).map(({ id }) => id);
  find("another").addEventListener("click", () =>
    choose(ids[Math.floor(Math.random() * ids.length)]));
  find("hits").replaceChildren(emptyHint());
  document.documentElement.dataset.state = "ready";
}

find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  source.useToken(find("token").value);
  start().catch(fail);
});
start().catch(fail);
