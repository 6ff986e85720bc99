"""Measures exported encoders: parity, size, speed, quantisation, serving.

    python tools/benchmark_export.py --run_dirs=runs/mnist-001,runs/digits-001
    python tools/benchmark_export.py --rows=20000 --requests=500   # a minute

Exports each run to a temporary folder first, with its check. Prints tables
and writes all numbers to --json. The full size takes about a quarter of an
hour on two cores; leave the machine alone meanwhile, for times are medians
of repeats within one process.
"""

import json
import os
import sys
import tempfile
import time

# Python looks for modules beside the script first, and would take export.py
# there for the package `export`: look in the folder above before.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np
import threadpoolctl
from absl import app
from absl import flags
from absl import logging
from vdsh_tf.export import exporter
from vdsh_tf.export import graph
from vdsh_tf.export import onnx_file
from vdsh_tf.export import parity
from vdsh_tf.export import runtimes

from tools import serving_load
from vdsh_tf.evaluation import metrics
from vdsh_tf.training.trainer import runs
from vdsh_tf.training.trainer import trainer

flags.DEFINE_list("run_dirs", None, "Finished runs; default the newest.")
flags.DEFINE_string("data_dir", None, "Data folder, if it has moved.")
flags.DEFINE_integer("rows", 1_000_000, "Rows of the parity check.")
flags.DEFINE_integer("repeats", 15, "Times that a speed is taken.")
flags.DEFINE_integer("requests", 10_000, "Requests of the load test.")
flags.DEFINE_integer("threads", 16, "Threads of the load test.")
flags.DEFINE_list(
    "parts", ["parity", "size", "speed", "quantize", "serve"], "What to do."
)
flags.DEFINE_bool("litert", False, "Measure LiteRT too.")
flags.DEFINE_string("json", None, "File for all numbers.")
FLAGS = flags.FLAGS

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


def measure_parity(model, metadata, built, real) -> list[dict]:
    """Every runtime against float64 on many rows."""
    encoders = runtimes.encoders(model, built)
    del encoders["saved_model bytes"]
    rng = np.random.default_rng(0)
    totals = {}
    for start in range(0, FLAGS.rows, _CHUNK):
        count = min(_CHUNK, FLAGS.rows - start)
        # Each real row once, as long as they last; then what is made of them.
        rows = real[start : start + count]
        if len(rows) < count:
            made = make_rows(real, count - len(rows), rng)
            rows = np.concatenate([rows, made])
        _add_parity(totals, model, rows, encoders)
        logging.info("parity: %d of %d rows", start + count, FLAGS.rows)
    pixels = runtimes.pixel_encoders(metadata, built)
    for start in range(0, min(FLAGS.rows, len(real)), _CHUNK):
        _add_parity(totals, model, real[start : start + _CHUNK], pixels)
    return [{"runtime": name, **counts} for name, counts in totals.items()]


def _add_parity(totals, model, rows, encoders):
    """Adds the counts of one chunk to those of each runtime.

    `of_zero_rows` tells how many of the bits within the margin belong to
    rows without any response: zeros, and those made of denormal numbers.
    """
    want = parity.responses(graph.kernels_of(model), rows, graph.mean_of(model))
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


def measure_speed(model, built, real) -> list[dict]:
    """Microseconds a row on one thread, in turns within one process."""
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
        inner = max(1, 200 // size)
        times = {name: [] for name in subjects}
        for run in subjects.values():
            run(x)
        for _ in range(FLAGS.repeats):
            for name, run in subjects.items():
                start = time.perf_counter()
                for _ in range(inner):
                    run(x)
                spent = time.perf_counter() - start
                times[name].append(1e6 * spent / inner / size)
        bare = times["bare numpy"]
        for name, values in times.items():
            median = float(np.median(values))
            table.append(
                {
                    "runtime": name,
                    "batch": size,
                    "us_per_row": median,
                    "best": min(values),
                    "worst": max(values),
                    "speed_by_bare": float(np.median(bare) / median),
                    "best_by_bare": min(bare) / min(values),
                }
            )
    return table


def measure_quantized(built, split, bits) -> dict:
    """What static quantisation costs on queries and database."""
    database = split.database
    results = {}
    for name in (runtimes.ONNX, runtimes.QUANTIZED):
        session = onnx_file.Session(built[name])
        results[name] = [
            _codes(session, part.x) for part in (split.query, database)
        ]
    some = database.x[:2000]
    single, sevens = (_codes(session, some, size) for size in (1, 7))
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
            np.array_equal(single, results[runtimes.QUANTIZED][1][:2000])
            and np.array_equal(single, sevens)
        ),
    }


def _codes(session, rows, batch_size=1024):
    def encode(x):
        return session.run(x.astype(np.float32), "codes")["codes"]

    return parity.encode_batches(encode, rows, batch_size)


def show(title: str, rows: list[dict]) -> None:
    """Prints dictionaries with the same keys as a table."""
    print(f"\n{title}")
    cells = [
        [f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()]
        for row in rows
    ]
    cells.insert(0, list(rows[0]))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (c.rjust(w) for c, w in zip(line, widths, strict=True))
        print("  " + "  ".join(padded), flush=True)


def benchmark(directory: runs.RunDirectory, folder: str) -> dict:
    """All parts for one run."""
    model = runs.load_model(directory.file("model.keras"))
    split = trainer.load_data(directory.run, data_dir=FLAGS.data_dir)
    formats = exporter.FORMATS if FLAGS.litert else exporter.DEFAULT_FORMATS
    result = exporter.export(
        model, directory.run.data, folder, formats,
        rows=split.train.x, quantized=True,
    )  # fmt: skip
    built = {os.path.basename(path): path for path in result.paths}
    base = os.path.join(folder, runtimes.SAVED_MODEL)
    built[runtimes.SAVED_MODEL] = built.pop("1")
    real = np.concatenate([split.query.x, split.database.x])
    real = real.astype(np.float32)
    bits = model.encoder.bits
    name = f"{directory.run.data} {model.encoder.num_layers} layers"
    found = {"metadata": result.metadata.to_strings()}
    if "parity" in FLAGS.parts:
        found["parity"] = measure_parity(model, result.metadata, built, real)
        show(f"{name}: parity with float64", found["parity"])
    if "size" in FLAGS.parts:
        found["size"] = measure_size(model, built)
        show(f"{name}: size by weights", [found["size"]["ratio"]])
    if "speed" in FLAGS.parts:
        with threadpoolctl.threadpool_limits(1):
            found["speed"] = measure_speed(model, built, real)
        show(f"{name}: encoding, one thread", found["speed"])
    if "quantize" in FLAGS.parts:
        found["quantize"] = measure_quantized(built, split, bits)
        show(f"{name}: static quantisation", [found["quantize"]])
    if "serve" in FLAGS.parts:
        some = real[: FLAGS.requests]
        want = _codes(onnx_file.Session(built[runtimes.ONNX]), some)
        found["serve"] = serving_load.measure(
            base, some, want, FLAGS.requests, FLAGS.threads
        )
        show(f"{name}: client against the test server", found["serve"])
    return found


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    results = {}
    try:
        paths = FLAGS.run_dirs or [runs.newest(runs.ROOT).path]
        for path in paths:
            directory = runs.RunDirectory.open(path)
            with tempfile.TemporaryDirectory() as folder:
                results[path] = benchmark(directory, folder)
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    if FLAGS.json:
        with open(FLAGS.json, "w") as f:
            json.dump(results, f, indent=2)


if __name__ == "__main__":
    logging.set_verbosity(logging.INFO)
    app.run(main)
