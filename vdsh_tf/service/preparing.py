"""Makes a prepared folder (`bundle`) of rows and an exported encoder."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from collections.abc import Sequence

import numpy as np
import orjson

from vdsh_tf import files
from vdsh_tf.data import inputs
from vdsh_tf.encoding.onnx_encoder import OnnxEncoder
from vdsh_tf.encoding.onnx_encoder import read as read_encoder
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.service import bundle
from vdsh_tf.service.store import ItemStore

_ROWS = 1024
_SAMPLE = 1500
# Of the largest value; what is below counts as background.
_FAINT = 0.1


def prepare(
    out: str,
    encoder: str,
    rows: np.ndarray,
    payloads: Sequence[dict] | None = None,
    image_shape: tuple[int, ...] | None = None,
    title: str = "Search",
    label: str | None = None,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> bundle.About:
    """Encodes rows and writes all that serving them needs, atomically.

    Args:
        out: the folder, which must be new.
        encoder: path of `encoder.onnx`.
        rows: [n, d], raw; item i is row i.
        payloads: a JSON object for each row.
        image_shape: (height, width, channels) if rows are pictures.
        title: a name to show.
        label: field of the payloads that tells classes apart.
        seed: of the sample on the map.
        progress: called with the number of rows done.
    """
    if os.path.exists(out):
        raise FileExistsError(
            f"The prepared folder must be new, or what was added to it is "
            f"lost. Received: {out}, which exists. Remove it, or name another."
        )
    rows = inputs.check_features(rows)
    partial = f"{out}.partial-{os.getpid()}"
    os.makedirs(partial)
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, partial, ignore_errors=True)
        _fill(
            partial,
            encoder,
            rows,
            payloads or [{}] * len(rows),
            image_shape,
            title,
            label,
            seed,
            progress,
        )
        os.rename(partial, out)
    return bundle.read(out)


def _fill(folder, encoder, rows, payloads, shape, title, label, seed, progress):
    def place(name):
        return os.path.join(folder, name)

    content = read_encoder(encoder)
    with open(place(bundle.ENCODER), "wb") as f:
        f.write(content)
    network = OnnxEncoder(content)
    codes, embeddings = _encode(network, rows, progress)
    np.save(place(bundle.EMBEDDINGS), embeddings)
    index = HammingIndex(network.bits, encoder=network.fingerprint)
    index.add(codes)
    index.save(place(bundle.INDEX))
    store = ItemStore(place(bundle.ITEMS), network.fingerprint, network.bits)
    store.describe(
        (i, orjson.dumps(payload).decode())
        for i, payload in enumerate(payloads)
    )
    store.close()
    about = bundle.About(title, network.fingerprint, label=label)
    if shape is not None:
        about = _with_pictures(about, rows, shape, place(bundle.PICTURES))
    labels = [payload.get(label) for payload in payloads]
    drawn = code_map(codes, embeddings, labels, seed)
    with open(place(bundle.MAP), "w") as f:
        json.dump(drawn, f)
    files.write_json(place(bundle.ABOUT), about.to_json())


def _encode(network, rows, progress):
    """Codes, and embeddings as float16."""
    parts = []
    for start in range(0, len(rows), _ROWS):
        part = np.asarray(rows[start : start + _ROWS], np.float32)
        codes, embeddings = network.embed(part)
        parts.append((codes, embeddings.astype(np.float16)))
        progress(start + len(part))
    codes, embeddings = map(np.concatenate, zip(*parts, strict=True))
    return codes, embeddings


def _with_pictures(about, rows, shape, path):
    """Writes the pictures; returns what they are like."""
    peak = float(rows.max())
    pixels = np.rint(np.clip(rows, 0, peak) * (255 / peak)).astype(np.uint8)
    pixels = pixels.reshape(-1, *shape)
    np.save(path, pixels)
    ink, fill = describe_strokes(pixels[:: max(1, len(pixels) // 500)])
    return bundle.About(
        about.title,
        about.fingerprint,
        tuple(map(int, shape)),
        peak,
        fill,
        ink,
        about.label,
    )


def describe_strokes(pixels: np.ndarray) -> tuple[bool, float]:
    """Whether pictures are bright strokes on black, and how large they are.

    Args:
        pixels: [n, height, width, channels] uint8.

    Returns:
        Whether they are, and the median of the longer side of what is drawn,
        as part of the picture's side.
    """
    if pixels.shape[3] != 1:
        return False, 1.0
    on: np.ndarray = np.asarray(pixels[..., 0] > 255 * _FAINT)
    corners = on[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    if corners.mean() > 0.1 or on.mean() > 0.6:
        return False, 1.0
    sides = []
    for axis in (1, 2):
        lines: np.ndarray = np.asarray(on.any(axis=3 - axis))
        first = lines.argmax(axis=1)
        last = lines.shape[1] - lines[:, ::-1].argmax(axis=1)
        sides.append((last - first) / lines.shape[1])
    return True, float(np.median(np.maximum(*sides)))


def code_map(
    codes: np.ndarray, embeddings: np.ndarray, labels: Sequence, seed: int = 0
) -> dict:
    """A sample of the items on a plane, by t-SNE of their embeddings.

    The embedding is the code before it is rounded to bits; many items have
    the same code, and would lie on one another.

    Returns:
        Lists by name: ids, x and y from 0 to 1, codes in hexadecimal digits,
        labels.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    count = min(_SAMPLE, len(codes))
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(len(codes), count, replace=False))
    x = embeddings[ids].astype(np.float32)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6)
    places = np.zeros((count, 2))
    if count > 3:
        tsne = TSNE(
            perplexity=min(30, (count - 1) / 3), init="pca", random_state=seed
        )
        # More threads wait for each other by spinning: where something else
        # runs they take five times as long as one.
        with threadpool_limits(1):
            places = tsne.fit_transform(x)
    low, high = places.min(axis=0), places.max(axis=0)
    places = (places - low) / np.where(high > low, high - low, 1)
    return {
        "ids": ids.tolist(),
        "x": np.round(places[:, 0], 4).tolist(),
        "y": np.round(places[:, 1], 4).tolist(),
        "codes": [codes[i].tobytes().hex() for i in ids],
        "labels": [labels[i] for i in ids],
    }
