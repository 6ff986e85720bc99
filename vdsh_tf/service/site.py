"""The page as files alone: items and encoder beside it, no service."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import numpy as np

from vdsh_tf.encoding import onnx_encoder
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.service import bundle
from vdsh_tf.service.store import ItemStore

ORT = "onnxruntime-web@1.30.0"
# Of its files, what the page loads.
ORT_FILES = (
    "ort.wasm.min.mjs",
    "ort-wasm-simd-threaded.mjs",
    "ort-wasm-simd-threaded.wasm",
)
_LEFT_OUT = ("remote.mjs",)
_SECONDS = 300


def write(
    out: str, folder: str, items: int = 5000, ort: str | None = None
) -> int:
    """Writes a site of a prepared folder, atomically.

    Args:
        out: new folder.
        folder: what `preparing.prepare` made.
        items: the most items to take, at random.
        ort: `dist` folder of onnxruntime-web; None lets npm bring it.

    Returns:
        Number of items.
    """
    about = bundle.read(folder)
    partial = f"{out}.partial-{os.getpid()}"
    os.makedirs(os.path.join(partial, "ort"))
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, partial, ignore_errors=True)
        dist = ort or undo.enter_context(_fetched())
        _copy_runtime(dist, os.path.join(partial, "ort"))
        count = _write_items(partial, folder, about, items)
        _write_page(partial)
        shutil.copy(os.path.join(folder, bundle.ENCODER), partial)
        os.rename(partial, out)
    return count


def _write_items(out, folder, about, most):
    encoder = onnx_encoder.OnnxEncoder(
        onnx_encoder.read(os.path.join(folder, bundle.ENCODER))
    )
    index = HammingIndex.load(os.path.join(folder, bundle.INDEX))
    drawn = {}
    if about.map is not None:
        with open(about.map) as f:
            drawn = json.load(f)
    ids = _sample(len(index), most, drawn.get("ids", []))
    drawn = _only(drawn, set(ids.tolist()))
    store = ItemStore(
        os.path.join(folder, bundle.ITEMS), encoder.fingerprint, encoder.bits
    )
    payloads = store.payloads(ids)
    store.close()
    index.codes_of(ids).tofile(os.path.join(out, "codes.bin"))
    kept = bundle.embeddings(folder)
    if kept is not None:
        _bytes(kept[ids]).tofile(os.path.join(out, "embeddings.bin"))
    if about.pictures is not None:
        np.array(about.pictures[ids]).tofile(os.path.join(out, "pictures.bin"))
    facts = {
        **about.to_json(),
        "items": len(ids),
        "bits": encoder.bits,
        "width": encoder.width,
        "pictures": about.pictures is not None,
        "rerank": kept is not None,
        "map": bool(drawn),
        "ids": ids.tolist(),
        "payloads": [json.loads(payloads.get(i, "{}")) for i in ids.tolist()],
    }
    for name, data in (("site.json", facts), (bundle.MAP, drawn)):
        with open(os.path.join(out, name), "w") as f:
            json.dump(data, f, separators=(",", ":"))
    return len(ids)


def _sample(count, most, first):
    """Ids to take: those of the map first, then others at random."""
    rng = np.random.default_rng(0)
    rest = np.setdiff1d(np.arange(count), first)
    chosen = [*first, *rng.permutation(rest)][: min(most, count)]
    return np.sort(np.array(chosen, np.int64))


def _only(drawn, ids):
    """The map without items that were not taken."""
    if not drawn:
        return {}
    keep = [i for i, number in enumerate(drawn["ids"]) if number in ids]
    return {name: [drawn[name][i] for i in keep] for name in drawn}


def _bytes(embeddings):
    """Embeddings as bytes; cosines do not see the scale of a row."""
    x = np.asarray(embeddings, np.float32)
    peak = np.maximum(x.max(axis=1, keepdims=True), 1e-9)
    return np.rint(x * (255 / peak)).astype(np.uint8)


def _write_page(out):
    for name in bundle.PAGE_FILES:
        if name not in _LEFT_OUT:
            shutil.copy(bundle.page_file(name), out)
    path = os.path.join(out, "index.html")
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text.replace('data-source="remote"', 'data-source="local"', 1))


def _copy_runtime(dist, out):
    for name in ORT_FILES:
        path = os.path.join(dist, name)
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"The folder of onnxruntime-web must have {name}. Received: "
                f"{dist}. Give the `dist` folder of {ORT}."
            )
        shutil.copy(path, out)


@contextlib.contextmanager
def _fetched() -> Iterator[str]:
    """onnxruntime-web as npm brings it, for a while."""
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(
            "The site needs onnxruntime-web, which npm brings, and npm is not "
            "installed. Install Node.js (https://nodejs.org), or unpack "
            f"{ORT} yourself and name its `dist` folder."
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "install", "--ignore-scripts", "--no-audit"]
        command += ["--no-fund", "--prefix", folder, ORT]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS
        )
        if done.returncode:
            raise RuntimeError(
                f"npm could not bring {ORT}. Connect to the network, or "
                "unpack it yourself and name its `dist` folder. npm says: "
                f"{done.stderr[-500:]}"
            )
        yield os.path.join(folder, "node_modules", "onnxruntime-web", "dist")
