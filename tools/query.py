"""Finds what is near: a file of queries -> ids and distances.

    python tools/query.py                       # the newest run's queries
    python tools/query.py --queries=photos/ --k=5 --plot=found.png
    python tools/query.py --queries=features.npy --radius=2 --out=hits.json
    python tools/query.py --server=http://localhost:8501

Writes CSV (query, rank, id, distance) or, to a name that ends in .json, JSON.
--plot shows the first queries with their neighbours, for runs on images; ids
must then be row numbers of --database. Needs `tools/encode.py` and
`tools/index.py` first. Seconds, most of them to start.
"""

import functools
import sys

from absl import app
from absl import flags
from absl import logging

from vdsh_tf import serving
from vdsh_tf.data import streams
from vdsh_tf.search import answers
from vdsh_tf.search import code_files
from vdsh_tf.search import engines
from vdsh_tf.search.hasher import Hasher
from vdsh_tf.training.trainer import runs
from vdsh_tf.training.trainer import trainer

flags.DEFINE_string("run_dir", None, "Run to encode with; default the newest.")
flags.DEFINE_string(
    "queries", "query", "File, folder, or the run's own query or database."
)
flags.DEFINE_string(
    "index", None,
    "faiss:path or milvus:uri#collection; default faiss:RUN_DIR/index.npz.",
)  # fmt: skip
flags.DEFINE_integer("k", 10, "Number of neighbours.")
flags.DEFINE_integer("radius", None, "All within so many bits, instead of k.")
flags.DEFINE_string("out", None, ".csv or .json; default CSV to the screen.")
flags.DEFINE_string("plot", None, "Picture (.png) of queries and neighbours.")
flags.DEFINE_integer("plot_rows", 10, "Queries in the picture.")
flags.DEFINE_string(
    "database", "database", "Where --plot finds neighbours; as --queries."
)
flags.DEFINE_string("data_dir", None, "The run's data folder, if it has moved.")
flags.DEFINE_string("path", None, "The run's features file, if it has moved.")
flags.DEFINE_string(
    "server", None,
    "http://host:8501 or grpc://host:8500 that serves the run's encoder, to "
    "encode there.",
)  # fmt: skip
FLAGS = flags.FLAGS

_BATCH = 256


def hash_function(directory: runs.RunDirectory):
    """What makes codes of raw rows, and its encoder's fingerprint."""
    model = runs.load_model(directory.file("model.keras"))
    fingerprint = model.encoder.fingerprint()
    if FLAGS.server:
        return serving.Client(FLAGS.server).encode, fingerprint
    return Hasher(model.encoder), fingerprint


def search(directory: runs.RunDirectory) -> None:
    """Answers all queries."""
    run = directory.run
    load = functools.cache(
        functools.partial(trainer.load_data, run, FLAGS.data_dir, FLAGS.path)
    )
    hash_rows, fingerprint = hash_function(directory)
    uri = FLAGS.index or f"faiss:{directory.file('index.npz')}"
    index = engines.open_index(uri, fingerprint)
    queries = streams.named_rows(FLAGS.queries, run.data, load)
    plot = None
    if FLAGS.plot:
        shape = streams.image_shape(run.data)
        database = streams.named_rows(FLAGS.database, run.data, load)
        plot = answers.Plot(FLAGS.plot, FLAGS.plot_rows, database, shape)
    with answers.writer(FLAGS.out) as write:
        for number, batch in enumerate(queries.batches(_BATCH)):
            codes = code_files.hash_batch(
                hash_rows, batch, number * _BATCH, FLAGS.queries
            )
            hits = answers.find(index, codes, FLAGS.k, FLAGS.radius)
            write(hits)
            if plot is not None:
                plot.add(batch, hits)
    if plot is not None:
        plot.draw()


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    try:
        search(runs.select(FLAGS.run_dir))
    except BrokenPipeError:
        # The reader of the screen's output, such as `head`, has seen enough.
        sys.stderr.close()
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    logging.set_verbosity(logging.WARNING)
    app.run(main)
