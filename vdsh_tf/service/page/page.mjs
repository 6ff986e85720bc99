// The page: a query, its code, the nearest items, and a map of the codes.

import { brightness, darkened, drawable, pictureToRow, strokesToRow } from "./drawing.mjs";
import { CodeMap, describe, make, palette, plural, showCode, tile } from "./views.mjs";

const source = await import(
  document.documentElement.dataset.source === "local" ? "./local.mjs" : "./remote.mjs");
const find = (id) => document.getElementById(id);
const HITS = 16;
const RERANK = 200;
const LISTED = 50;

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

const filter = () => (source.filters ? find("filter").value.trim() : "");

/** Asks for what is near the query, now or after the running question. */
async function ask(start = performance.now()) {
  if (!query) return;
  if (asking) { again = true; return; }
  asking = true;
  try {
    const rerank = facts.rerank && find("rerank").checked ? RERANK : 0;
    const asked = query;
    const found = await source.search(asked, { k: HITS, radius: radius(), rerank, filter: filter() });
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
    tiles.push(make("li", { className: "empty", textContent: radius() === null
      ? "No item passes the filter." : "No item is this near. Move the radius to the right." }));
  }
  find("hits").replaceChildren(...tiles);
  const count = found.total === undefined ? `${plural(found.hits.length, "item")}`
    : `${plural(found.total, "item")} within ${plural(radius(), "bit")}`;
  find("status").textContent = `${count}, ${Math.max(1, Math.round(spent))} ms`;
  find("status").classList.remove("error");
  if (map) {
    const near = map.place(code, found.hits);
    find("place").textContent = near == null ? ""
      : `The query falls among items with ${facts.label} ${near}.`;
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
  text.textContent = (hit.distance ? `Item ${hit.id} differs in ${plural(hit.distance, "bit")}.`
    : `Item ${hit.id} has the same code.`) + (hit.similarity === undefined ? ""
    : ` Cosine of the embeddings: ${hit.similarity.toFixed(4)}.`);
}

/** Makes an item the query. */
function choose(id) {
  return chosen(id).catch(fail);
}

async function chosen(id) {
  const mine = { id };
  query = mine;
  if (pad) pad.clear();
  find("hint").hidden = true;
  const { payload } = await source.item(id);
  const address = await Promise.resolve(pictureOf(id)).catch(() => null);
  const image = find("chosen").querySelector("img");
  image.hidden = !address;
  if (address) image.src = address;
  image.alt = `Item ${id}`;
  find("chosen").querySelector("figcaption").textContent = `Item ${id}: ${describe(payload)}`;
  find("chosen").hidden = false;
  if (pad && address) {
    const picture = new Image();
    picture.src = address;
    const there = await picture.decode().then(() => true, () => false);
    // Somebody draws already.
    if (query !== mine) return;
    if (there) pad.show(picture);
    find("chosen").hidden = there;
    image.hidden = !there;
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

/** Items to choose from: of the map, where there is one, as it has all sorts. */
async function startList() {
  const step = map ? Math.max(1, map.ids.length / LISTED) : 0;
  const ids = map ? map.ids.filter((_, i) => i % step < 1) : [];
  const found = await Promise.all(ids.map((id) => source.item(id).catch(() => null)));
  const items = map ? found.filter(Boolean) : await source.list(-1);
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

function startFilter() {
  const [first] = colors.keys();
  find("filter").placeholder = facts.label && first !== undefined
    ? `${facts.label} = ${JSON.stringify(first)}` : "field = value";
  find("filter").addEventListener("change", () => ask());
  find("filter-field").hidden = false;
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
  find("rerank-text").textContent = `Order the nearest ${RERANK} by embedding`;
  find("rerank").addEventListener("change", () => ask());
  startRadius();
  let ids = [];
  if (facts.map) {
    await startMap();
    ids = map.ids;
  }
  if (!facts.pictures) ids = (await startList()).map(({ id }) => id);
  else if (!ids.length) ids = (await source.list(-1)).map(({ id }) => id);
  if (source.filters) startFilter();
  find("another").addEventListener("click", () =>
    choose(ids[Math.floor(Math.random() * ids.length)]));
  find("another").hidden = !ids.length;
  find("hits").replaceChildren(emptyHint());
  // An example says more than an empty page.
  if (ids.length && await source.item(ids[0]).catch(() => null)) await choose(ids[0]);
  if (!query?.row) find("hint").hidden = false;
  document.documentElement.dataset.state = "ready";
}

find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  source.useToken(find("token").value);
  start().catch(fail);
});
start().catch(fail);
