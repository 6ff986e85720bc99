// A drawing or picture as a row of the encoder: cut, scaled and centred as
// the pictures that it was trained on.

const FAINT = 0.1;

/** Lets a canvas be drawn on; calls `changed` after every stroke's piece. */
export function drawable(canvas, size, changed) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  // As wide as the strokes of small pictures are.
  context.lineWidth = canvas.width * Math.max(0.08, 1.2 / size);
  context.lineCap = context.lineJoin = "round";
  context.strokeStyle = "#fff";
  let last = null;
  let shown = false;

  function clear() {
    context.clearRect(0, 0, canvas.width, canvas.height);
    last = null;
    shown = false;
  }

  function to(x, y) {
    // A stroke begins a drawing of its own, not one on another's.
    if (shown) clear();
    context.beginPath();
    context.moveTo(...(last ?? [x, y]));
    context.lineTo(x, y + (last ? 0 : 0.01));
    context.stroke();
    last = [x, y];
    changed();
  }
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * canvas.width / box.width,
      (event.clientY - box.top) * canvas.height / box.height];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = null;
    to(...at(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons & 1 && last) to(...at(event));
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, () => { last = null; });
  }
  byKeyboard(canvas, to, () => { last = null; });
  return {
    clear,
    // `stretch`: as pictures are that have another shape than the encoder's.
    show(image, stretch = false) {
      clear();
      shown = true;
      const fits = [canvas.width / image.width, canvas.height / image.height];
      const scales = stretch ? fits : fits.fill(Math.min(...fits));
      const [w, h] = [image.width * scales[0], image.height * scales[1]];
      context.drawImage(image, (canvas.width - w) / 2, (canvas.height - h) / 2, w, h);
    },
  };
}

function byKeyboard(canvas, to, lift) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  let [x, y, down] = [canvas.width / 2, canvas.height / 4, false];
  canvas.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (event.key === " ") {
      down = !down;
      if (down) { lift(); to(x, y); }
    } else if (move) {
      const step = canvas.width / 20;
      x = Math.min(canvas.width, Math.max(0, x + move[0] * step));
      y = Math.min(canvas.height, Math.max(0, y + move[1] * step));
      if (down) to(x, y);
    } else if (event.key === "Escape") {
      document.querySelector("#clear").click();
      down = false;
    } else return;
    event.preventDefault();
  });
}

/** Brightness from 0 to 1 of a canvas: { data, width, height }. */
export function brightness(canvas) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const gray = new Float32Array(width * height);
  for (let i = 0; i < gray.length; i += 1) {
    const p = 4 * i;
    gray[i] = (0.299 * data[p] + 0.587 * data[p + 1] + 0.114 * data[p + 2]) *
      data[p + 3] / 65025;
  }
  return { data: gray, width, height };
}

/** The same with dark and bright exchanged, if its border is bright. */
export function onBlack(gray) {
  const { data, width, height } = gray;
  let [sum, count] = [0, 0];
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      if (x && y && x < width - 1 && y < height - 1) continue;
      sum += data[y * width + x];
      count += 1;
    }
  }
  if (sum / count < 0.5) return gray;
  return { data: data.map((value) => 1 - value), width, height };
}

/** Strokes of a photograph or scan, bright on black. */
export function darkened(image) {
  const canvas = sized(280, 280);
  const context = canvas.getContext("2d");
  const side = Math.max(image.width, image.height);
  const [w, h] = [280 * image.width / side, 280 * image.height / side];
  const small = sized(Math.round(w) || 1, Math.round(h) || 1);
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

function sized(width, height) {
  return Object.assign(document.createElement("canvas"), { width, height });
}

/** Means over boxes: part [x, y, w, h] of a picture as out_w x out_h. */
export function resample({ data, width }, [left, top, w, h], outW, outH) {
  const out = new Float32Array(outW * outH);
  for (let v = 0; v < outH; v += 1) {
    for (let u = 0; u < outW; u += 1) {
      const [x0, x1] = [left + u * w / outW, left + (u + 1) * w / outW];
      const [y0, y1] = [top + v * h / outH, top + (v + 1) * h / outH];
      let sum = 0;
      for (let y = Math.floor(y0); y < y1; y += 1) {
        const tall = Math.min(y + 1, y1) - Math.max(y, y0);
        for (let x = Math.floor(x0); x < x1; x += 1) {
          sum += data[y * width + x] * tall * (Math.min(x + 1, x1) - Math.max(x, x0));
        }
      }
      out[v * outW + u] = sum / ((x1 - x0) * (y1 - y0));
    }
  }
  return out;
}

/** A row of the encoder from a drawing; null if nothing is drawn.

The longer side of what is drawn becomes `fill` of the picture's; its centre of
mass comes into the middle, or its box where it fills the whole picture. */
export function strokesToRow(gray, { image_shape: [height, width], peak, fill }) {
  const box = bounds(gray);
  if (!box) return null;
  const [, , w, h] = box;
  const scale = Math.min(fill * width / w, fill * height / h);
  const outW = Math.max(1, Math.min(width, Math.round(w * scale)));
  const outH = Math.max(1, Math.min(height, Math.round(h * scale)));
  const small = resample(gray, box, outW, outH);
  let [cx, cy] = [outW / 2, outH / 2];
  if (fill < 0.95) {
    let mass = 0;
    [cx, cy] = [0, 0];
    small.forEach((value, i) => {
      mass += value;
      cx += value * (i % outW + 0.5);
      cy += value * (Math.floor(i / outW) + 0.5);
    });
    [cx, cy] = [cx / mass, cy / mass];
  }
  const clamp = (value, most) => Math.max(0, Math.min(most, value));
  const left = clamp(Math.round(width / 2 - cx), width - outW);
  const top = clamp(Math.round(height / 2 - cy), height - outH);
  const row = new Float32Array(width * height);
  const most = small.reduce((a, b) => Math.max(a, b), 0);
  small.forEach((value, i) => {
    row[(top + Math.floor(i / outW)) * width + left + i % outW] = peak * value / most;
  });
  return row;
}

/** A row from any picture, resized. */
export function pictureToRow(canvas, { image_shape: [height, width, channels], peak }) {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const row = new Float32Array(height * width * channels);
  const size = { width: canvas.width, height: canvas.height };
  for (let c = 0; c < channels; c += 1) {
    const plane = channels === 1 ? brightness(canvas)
      : { ...size, data: Float32Array.from({ length: canvas.width * canvas.height },
        (_, i) => data[4 * i + c] / 255) };
    resample(plane, [0, 0, canvas.width, canvas.height], width, height)
      .forEach((value, i) => { row[i * channels + c] = peak * value; });
  }
  return row;
}

function bounds({ data, width, height }) {
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let i = 0; i < data.length; i += 1) {
    if (data[i] <= FAINT) continue;
    const [x, y] = [i % width, Math.floor(i / width)];
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < top) top = y;
    if (y > bottom) bottom = y;
  }
  return right < 0 ? null : [left, top, right - left + 1, bottom - top + 1];
}
