// What the page shows: barcode, tiles, map. Text of payloads is only ever set
// as text.

export const COLORS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1",
  "#9c755f", "#d37295", "#499894", "#c2a800", "#8a8f99"];

/** An element with properties and children. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export const bitsOf = (hex, count) => Array.from({ length: count },
  (_, i) => parseInt(hex[i >> 2], 16) >> (3 - (i & 3)) & 1);

/** Shows a code, and where another differs from it. */
export function showCode(box, hex, count, other = null) {
  const bits = bitsOf(hex, count);
  const theirs = other ? bitsOf(other, count) : bits;
  while (box.children.length < count) box.append(document.createElement("i"));
  bits.forEach((bit, i) => {
    box.children[i].className = `${bit ? "on" : ""}${theirs[i] === bit ? "" : " differs"}`;
  });
  const on = bits.reduce((a, b) => a + b, 0);
  box.setAttribute("aria-label", `Code ${hex}: ${on} of ${count} bits are on`);
}

/** A payload in one line. */
export function describe(payload) {
  const parts = Object.entries(payload ?? {}).map(([name, value]) =>
    `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`);
  return parts.join(", ") || "no payload";
}

export const plural = (count, word) =>
  `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** Colours by label, in the order of the labels. */
export function palette(labels) {
  const distinct = [...new Set(labels.filter((label) => label != null))];
  distinct.sort((a, b) => (a < b ? -1 : 1));
  return new Map(distinct.map((label, i) => [label, COLORS[i % COLORS.length]]));
}

/** A neighbour: a button that searches from it. */
export function tile(hit, { colors, label, picture, choose, compare }) {
  const name = label ? hit.payload?.[label] : undefined;
  const caption = name === undefined ? `#${hit.id}` : String(name);
  const line = make("span", { className: "line" });
  const text = make("span");
  if (colors.has(name)) {
    const swatch = make("span", { className: "swatch" });
    swatch.style.background = colors.get(name);
    text.append(swatch);
  }
  text.append(picture || name === undefined ? caption : `${label} ${caption}`);
  line.append(text, make("span", { className: "bits", textContent: plural(hit.distance, "bit") }));
  const button = make("button", { className: "hit", type: "button" });
  button.dataset.id = hit.id;
  button.dataset.distance = hit.distance;
  const details = `Item ${hit.id}, ${describe(hit.payload)}, ${plural(hit.distance, "bit")} away`;
  button.title = details;
  // Its label stands below, with the colour that it has on the map.
  const { [label]: _, ...rest } = hit.payload ?? {};
  const parts = name === undefined ? [] : [`Item ${hit.id}`];
  if (name === undefined || Object.keys(rest).length) parts.push(describe(rest));
  const words = make("span", { className: "payload", textContent: parts.join(": ") });
  if (picture) {
    const image = make("img", { alt: details, decoding: "sync" });
    // Items that were added later have none.
    image.addEventListener("error", () => image.replaceWith(words));
    picture.then((address) => { image.src = address; }, () => image.replaceWith(words));
    button.append(image);
  } else {
    button.append(words);
  }
  button.append(line);
  button.addEventListener("click", () => choose(hit.id));
  for (const event of ["pointerenter", "focus"]) {
    button.addEventListener(event, () => compare(hit));
  }
  for (const event of ["pointerleave", "blur"]) {
    button.addEventListener(event, () => compare(null));
  }
  return make("li", {}, button);
}

/** The map: items of a sample, and where a query falls among them. */
export class CodeMap {
  constructor(canvas, { ids, x, y, codes, labels }, bits, choose) {
    Object.assign(this, { canvas, ids, x, y, labels, bits });
    this.colors = palette(labels);
    this.codes = codes.map((hex) => bitsOf(hex, bits));
    this.query = null;
    this.shown = new Set();
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      choose(this.nearestTo(event.clientX - box.left, event.clientY - box.top));
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  point(i) {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    return [16 + this.x[i] * (w - 32), 16 + this.y[i] * (h - 32)];
  }

  nearestTo(x, y) {
    let [best, found] = [Infinity, 0];
    this.ids.forEach((_, i) => {
      const [px, py] = this.point(i);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < best) [best, found] = [distance, i];
    });
    return this.ids[found];
  }

  /** Puts the query at the mean of the sampled items that are nearest. */
  place(hex, hits) {
    const bits = bitsOf(hex, this.bits);
    const distances = this.codes.map((code) =>
      code.reduce((sum, bit, i) => sum + (bit !== bits[i]), 0));
    // Of those with equal codes, those that are hits, where some are.
    this.shown = new Set(hits.map((hit) => hit.id));
    const near = distances.map((distance, i) =>
      [distance - (this.shown.has(this.ids[i]) ? 0.5 : 0), i]);
    near.sort((a, b) => a[0] - b[0]);
    const chosen = near.filter(([d], rank) => rank < 5 || d === near[0][0]).map(([, i]) => i);
    const mean = (values) => chosen.reduce((sum, i) => sum + values[i], 0) / chosen.length;
    this.query = [mean(this.x), mean(this.y)];
    this.draw();
    const counts = new Map();
    for (const i of chosen) counts.set(this.labels[i], (counts.get(this.labels[i]) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1])[0][0];
  }

  forget() {
    this.query = null;
    this.shown = new Set();
    this.draw();
  }

  draw() {
    const { canvas } = this;
    const scale = devicePixelRatio || 1;
    const { clientWidth: w, clientHeight: h } = canvas;
    if (!w) return;
    [canvas.width, canvas.height] = [w * scale, h * scale];
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const styles = getComputedStyle(document.documentElement);
    for (let i = 0; i < this.ids.length; i += 1) {
      const shown = this.shown.has(this.ids[i]);
      context.globalAlpha = shown ? 1 : 0.55;
      context.fillStyle = this.colors.get(this.labels[i]) ?? styles.getPropertyValue("--quiet");
      context.beginPath();
      context.arc(...this.point(i), shown ? 5 : 2.6, 0, 2 * Math.PI);
      context.fill();
    }
    context.globalAlpha = 1;
    if (!this.query) return;
    const [x, y] = [16 + this.query[0] * (w - 32), 16 + this.query[1] * (h - 32)];
    for (const [radius, width, color] of [
      [13, 6, "--card"], [13, 3, "--ink"], [3, 3, "--ink"]]) {
      context.strokeStyle = styles.getPropertyValue(color);
      context.lineWidth = width;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.stroke();
    }
  }
}
