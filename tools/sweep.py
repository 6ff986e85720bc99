"""Trains a preset at several code lengths and seeds; prints means.

    python tools/sweep.py --preset=mnist --data_dir=/path/to/tfds
    python tools/sweep.py --preset=cifar10_cnn --path=features.npz \
        --against=sdh

Each run has its own directory below --out, and each comparison its own JSON
file; what is finished is not computed again. A seed chooses the split, the
starting weights and the order of the data. --against names methods of
`vdsh_tf.baselines` to fit on the very same splits.
"""

import dataclasses
import json
import os
import sys
import time

import numpy as np
from absl import app
from absl import flags
from absl import logging

from vdsh_tf import files
from vdsh_tf.evaluation import metrics
from vdsh_tf.research.baselines import registry
from vdsh_tf.training.trainer import presets
from vdsh_tf.training.trainer import runs
from vdsh_tf.training.trainer import trainer

flags.DEFINE_string("preset", "mnist", "One of: " + ", ".join(presets.PRESETS))
flags.DEFINE_list("bits", ["16", "32", "64", "128"], "Code lengths.")
flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds.")
flags.DEFINE_list("against", [], "Methods to compare with, such as sdh.")
flags.DEFINE_string("data", None, "Other data than the preset's.")
flags.DEFINE_string("data_dir", None, "Prepared tensorflow-datasets folder.")
flags.DEFINE_string("path", None, "Features file of an npz preset.")
flags.DEFINE_integer("queries_per_class", None, "Another number of queries.")
flags.DEFINE_string("out", "runs/sweep", "Folder for the runs.")
flags.DEFINE_string("name", None, "Name of the runs; default the preset's.")
FLAGS = flags.FLAGS

KEYS = ("map", "precision_r2", "recall_r2", "train_seconds")


def train(run: presets.Run, split, name: str) -> dict:
    """Metrics of one run: read, gone on with, or trained from the start."""
    path = os.path.join(FLAGS.out, name)
    if os.path.isdir(path):
        directory = runs.RunDirectory.open(path)
    else:
        directory = runs.RunDirectory.create(path, run)
    if not directory.finished:
        trainer.train(directory, split, verbose=0)
    return directory.read_json("metrics.json")


def compare(method: str, bits: int, seed: int, split, name: str) -> dict:
    """Metrics of another method on the same split: read or computed."""
    path = os.path.join(FLAGS.out, f"{name}.json")
    if os.path.isfile(path):
        with open(path) as f:
            return json.load(f)
    fitted = registry.make(method, bits, seed)
    start = time.perf_counter()
    fitted.fit(split.train.x, split.train.y)
    seconds = time.perf_counter() - start
    result = metrics.evaluate(
        fitted.encode(split.query.x), split.query.y,
        fitted.encode(split.database.x), split.database.y, bits,
    )  # fmt: skip
    result["train_seconds"] = seconds
    files.write_text(path, json.dumps(result, indent=2) + "\n")
    return result


def sweep() -> dict:
    """Metrics by (method, bits), a list over seeds."""
    found = {}
    for method in FLAGS.against:
        registry.load(method)  # An unknown name must show before training.
    stem = FLAGS.name or FLAGS.preset
    for seed in map(int, FLAGS.seeds):
        base = dataclasses.replace(
            presets.get(FLAGS.preset), seed=seed, data_dir=FLAGS.data_dir,
            path=FLAGS.path, queries_per_class=FLAGS.queries_per_class,
        )  # fmt: skip
        if FLAGS.data:
            base = dataclasses.replace(base, data=FLAGS.data)
        split = trainer.load_data(base)
        for bits in map(int, FLAGS.bits):
            run = dataclasses.replace(base, bits=bits)
            name = f"{stem}-{bits}bits-seed{seed}"
            result = train(run, split, name)
            report(f"{name} vdsh", result)
            found.setdefault(("vdsh", bits), []).append(result)
            for method in FLAGS.against:
                other = f"{stem}-{method}-{bits}bits-seed{seed}"
                result = compare(method, bits, seed, split, other)
                report(other, result)
                found.setdefault((method, bits), []).append(result)
    return found


def report(name: str, result: dict) -> None:
    """Logs one finished run."""
    logging.info(
        "%s: %s", name, ", ".join(f"{k} {result[k]:.4g}" for k in KEYS)
    )


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    os.makedirs(FLAGS.out, exist_ok=True)
    try:
        found = sweep()
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    print(f"\nmean (standard deviation) over seeds {','.join(FLAGS.seeds)}")
    print(f"{'method':10} {'bits':>4}  {'mAP':12} {'P@r2':12} {'R@r2':12} s")
    for (method, bits), results in sorted(found.items()):
        cells = []
        for key in KEYS[:3]:
            values = [r[key] for r in results]
            cells.append(f"{np.mean(values):.4f} ({np.std(values):.3f})")
        seconds = np.mean([r["train_seconds"] for r in results])
        print(f"{method:10} {bits:4}  {' '.join(cells)} {seconds:.0f}")


if __name__ == "__main__":
    logging.set_verbosity(logging.INFO)
    app.run(main)
