"""Measurements of exported encoders, printed by `tools/benchmarks/export.py`.

`built` holds paths by the names of `vdsh_tf.export.runtimes`.
"""

import os
import time

import numpy as np
from absl import logging

from vdsh_tf.evaluation import metrics
from vdsh_tf.export import graph
from vdsh_tf.export import onnx_file
from vdsh_tf.export import parity
from vdsh_tf.export import runtimes

_CHUNK = 16_384


def make_rows(real: np.ndarray, count: int, rng) -> np.ndarray:
    """Rows in equal parts: real, mixtures of two, and hostile ones.

    A mixture lies between two real rows, so near the borders of codes, and
    has a random scale from 1e-30 to 1e30.
    """
    parts = [real[rng.integers(len(real), size=count // 3)]]
    a, b = (real[rng.integers(len(real), size=count // 3)] for _ in "ab")
    share = rng.random((len(a), 1), np.float32)
    scale = 10 ** rng.uniform(-30, 30, (len(a), 1))
    parts.append(((share * a + (1 - share) * b) * scale).astype(np.float32))
    rest = count - sum(map(len, parts))
    chosen = real[rng.integers(len(real), size=-(-rest // 7))]
    return np.concatenate([*parts, parity.hostile_rows(chosen)[:rest]])


def measure_parity(model, metadata, built, real, total: int) -> list[dict]:
    """Every runtime against float64 on many rows.

    Args:
        model: the trained model.
        metadata: of its export.
        built: the exported files.
        real: [n, d] rows of data.
        total: number of rows; those beyond n are made from the real ones.
    """
    encoders = runtimes.encoders(model, built)
    del encoders["saved_model bytes"]
    rng = np.random.default_rng(0)
    totals: dict = {}
    for start in range(0, total, _CHUNK):
        count = min(_CHUNK, total - start)
        # Each real row once, as long as they last; then what is made of them.
        rows = real[start : start + count]
        if len(rows) < count:
            made = make_rows(real, count - len(rows), rng)
            rows = np.concatenate([rows, made])
        _add_parity(totals, model, rows, encoders)
        logging.info("parity: %d of %d rows", start + count, total)
    pixels = runtimes.pixel_encoders(metadata, built)
    for start in range(0, min(total, len(real)), _CHUNK):
        _add_parity(totals, model, real[start : start + _CHUNK], pixels)
    return [{"runtime": name, **counts} for name, counts in totals.items()]


def _add_parity(totals, model, rows, encoders):
    """Adds the counts of one chunk to those of each runtime.

    `of_zero_rows` tells how many of the bits within the margin belong to
    rows without any response: zeros, and those made of denormal numbers.
    """
    want = parity.responses(
        graph.kernels_of(model), rows, *graph.normalization_of(model)
    )
    empty = int((~want.any(axis=1)).sum()) * want.shape[1]
    for name, encode in encoders.items():
        codes = parity.encode_batches(encode, rows, 1024)
        found = parity.compare(want, codes, name, 1024)._asdict()
        del found["runtime"], found["batch_size"]
        found["of_zero_rows"] = empty
        before = totals.get(name, dict.fromkeys(found, 0))
        totals[name] = {key: before[key] + found[key] for key in found}


def measure_size(model, built) -> dict:
    """Bytes of every file, and their ratio to the weights."""
    weights = sum(kernel.nbytes for kernel in graph.kernels_of(model))
    sizes = {"weights": weights}
    for name, path in built.items():
        files = [
            os.path.join(folder, file)
            for folder, _, found in os.walk(path)
            for file in found
        ]
        sizes[name] = sum(map(os.path.getsize, files or [path]))
    ratios = {name: size / weights for name, size in sizes.items()}
    return {"bytes": sizes, "ratio": ratios}


def bare_pass(kernels, batch_size):
    """The layers alone in NumPy, into arrays made before."""
    outs = [np.empty((batch_size, k.shape[1]), np.float32) for k in kernels]

    def run(x):
        for kernel, out in zip(kernels, outs, strict=True):
            np.matmul(x, kernel, out=out)
            x = np.maximum(out, 0, out=out)
        return x

    return run


def measure_speed(model, built, real, repeats: int) -> list[dict]:
    """Microseconds per row on one thread, in turns within one process."""
    kernels = graph.kernels_of(model)
    found = runtimes.encoders(model, built, threads=1)
    del found["keras"], found["saved_model bytes"]
    if runtimes.QUANTIZED in built:
        quantized = onnx_file.Session(built[runtimes.QUANTIZED], 1)
        found["onnx u8"] = lambda x: quantized.run(x, "codes")["codes"]
    table = []
    for size in (1, 1024):
        x = np.ascontiguousarray(np.resize(real, (size, real.shape[1])))
        subjects = {"bare numpy": bare_pass(kernels, size), **found}
        table += _speeds(subjects, x, repeats)
    return table


def _speeds(subjects, x, repeats):
    """One line per subject; the first is what the others are compared to."""
    inner = max(1, 200 // len(x))
    times = {name: [] for name in subjects}
    for run in subjects.values():
        run(x)
    for _ in range(repeats):
        for name, run in subjects.items():
            start = time.perf_counter()
            for _ in range(inner):
                run(x)
            spent = time.perf_counter() - start
            times[name].append(1e6 * spent / inner / len(x))
    bare = next(iter(times.values()))
    return [
        {
            "runtime": name,
            "batch": len(x),
            "us_per_row": float(np.median(values)),
            "best": min(values),
            "worst": max(values),
            "speed_by_bare": float(np.median(bare) / np.median(values)),
            "best_by_bare": min(bare) / min(values),
        }
        for name, values in times.items()
    ]


def measure_quantized(built, split, bits: int) -> dict:
    """What static quantisation costs on queries and database."""
    database = split.database
    results = {}
    for name in (runtimes.ONNX, runtimes.QUANTIZED):
        session = onnx_file.Session(built[name])
        results[name] = [
            codes(session, part.x) for part in (split.query, database)
        ]
    some = database.x[:2000]
    single, sevens = (codes(session, some, size) for size in (1, 7))
    plain, quantized = results[runtimes.ONNX], results[runtimes.QUANTIZED]
    maps = [
        metrics.evaluate(q, split.query.y, d, database.y, bits)["map"]
        for q, d in (plain, quantized)
    ]
    flipped = sum(
        int(np.bitwise_count(a ^ b).sum())
        for a, b in zip(plain, quantized, strict=True)
    )
    rows = len(split.query) + len(database)
    return {
        "rows": rows,
        "bits_flipped": flipped,
        "share_flipped": flipped / (rows * bits),
        "map_float": maps[0],
        "map_quantized": maps[1],
        "map_lost": maps[0] - maps[1],
        "batch_invariant_rows": len(some),
        "batch_invariant": bool(
            np.array_equal(single, quantized[1][:2000])
            and np.array_equal(single, sevens)
        ),
    }


def codes(session, rows, batch_size: int = 1024) -> np.ndarray:
    """Packed codes by an ONNX session."""

    def encode(x):
        return session.run(x.astype(np.float32), "codes")["codes"]

    return parity.encode_batches(encode, rows, batch_size)
