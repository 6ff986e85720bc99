"""Measures search: against faiss itself, the kinds, one query, memory.

    python tools/benchmark_search.py            # the newest run, on images
    python tools/benchmark_search.py --rows=100000 --repeats=3
    python tools/benchmark_search.py --out=search.json

Real codes throughout: the run's database, and --rows images made from it by
moving each by up to two pixels. Prints a table and writes JSON. Ten minutes
for MNIST with 48 layers and a million rows, on two cores.
"""

import json
import sys
import tempfile

import numpy as np
import search_measures as measures
from absl import app
from absl import flags
from absl import logging

from vdsh_tf import codes as codes_lib
from vdsh_tf import files
from vdsh_tf.data import streams
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.search.hasher import Hasher
from vdsh_tf.search.structures import import_faiss
from vdsh_tf.training.trainer import runs
from vdsh_tf.training.trainer import trainer

flags.DEFINE_string("run_dir", None, "Run to measure; default the newest.")
flags.DEFINE_string("data_dir", None, "The run's data folder, if it has moved.")
flags.DEFINE_integer("rows", 1_000_000, "Size of the large set.")
flags.DEFINE_integer("repeats", 7, "Turns of each measurement.")
flags.DEFINE_integer("k", 10, "Neighbours of a query.")
flags.DEFINE_integer("hnsw_rows", 69_000, "No graph for larger sets.")
flags.DEFINE_string("out", None, "JSON file; default RUN_DIR/search.json.")
FLAGS = flags.FLAGS


def compare(name, codes, queries, bits, result):
    """The kinds beside each other, and the flat one beside faiss."""
    kinds = ("hash", "ivf", "hnsw")
    if len(codes) > FLAGS.hnsw_rows:
        kinds = kinds[:2]
    result[f"kinds_{name}"] = measures.kinds(
        codes, queries, bits, kinds, FLAGS.k, FLAGS.repeats
    )
    result[f"faiss_{name}"] = measures.against_faiss(
        codes, queries, bits, FLAGS.k, 3 * FLAGS.repeats
    )


def measure(directory: runs.RunDirectory, work: str) -> dict:
    """All measurements."""
    shape = streams.image_shape(directory.run.data)
    if shape is None:
        raise ValueError("The benchmark moves images: name a run on images.")
    split = trainer.load_data(directory.run, FLAGS.data_dir)
    database = split.database
    model = runs.load_model(directory.file("model.keras"))
    hasher, bits = Hasher(model.encoder), model.encoder.bits
    queries, codes = hasher(split.query.x), hasher(database.x)
    result = {
        "run": directory.path,
        "bits": bits,
        "queries": len(queries),
        "database": len(codes),
        "distinct_codes": len(np.unique(codes, axis=0)),
    }
    large, result["encode"] = measures.encode_large(
        directory.path, database.x, shape, work, FLAGS.rows
    )
    result["distinct_codes_large"] = len(np.unique(large, axis=0))
    few = np.ascontiguousarray(queries[:: max(1, len(queries) // 100)])
    compare("database", codes, queries, bits, result)
    compare("large", large, few, bits, result)
    random = np.random.default_rng(0).integers(
        0, 2, (len(large), bits), np.uint8
    )
    one_off = random[:100].copy()
    one_off[:, 0] ^= 1
    compare(
        "random", codes_lib.pack(random), codes_lib.pack(one_off), bits, result
    )
    index = HammingIndex(bits)
    index.add(codes)
    result["one_query_ms"] = measures.one_query(
        hasher, index, split.query.x, FLAGS.k
    )
    result["evaluation_seconds"] = measures.evaluation(
        queries, split.query.y, codes, database.y, bits, FLAGS.repeats
    )
    result["ties"] = measures.ties(
        few[:20], split.query.y[:: max(1, len(queries) // 100)][:20], codes,
        database.y,
    )  # fmt: skip
    return result


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    try:
        for name in ("rows", "repeats", "k"):
            if FLAGS[name].value < 1:
                raise ValueError(f"--{name} must be >= 1.")
        import_faiss().omp_set_num_threads(1)
        directory = runs.select(FLAGS.run_dir)
        with tempfile.TemporaryDirectory() as work:
            result = measure(directory, work)
        out = FLAGS.out or directory.file("search.json")
        files.write_text(out, json.dumps(result, indent=2) + "\n")
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        sys.exit(f"error: {error}")
    measures.print_table(result)
    print(out)


if __name__ == "__main__":
    logging.set_verbosity(logging.WARNING)
    app.run(main)
