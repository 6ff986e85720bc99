"""Builds a search index from codes that `tools/encode.py` wrote.

    python tools/index.py                       # the newest run's codes.npy
    python tools/index.py --kind=hash --overwrite
    python tools/index.py --codes=codes.npy --ids=ids.npy --append
    python tools/index.py --index=milvus:codes.db#mnist

Items are numbered by row unless --ids names an int64 .npy. A second for
69,000 codes; `vdsh_tf.HammingIndex` says what the kinds are good for.
"""

import sys

import keras
import numpy as np
from absl import app
from absl import flags
from absl import logging

from vdsh_tf.search import checks
from vdsh_tf.search import code_files
from vdsh_tf.search import engines
from vdsh_tf.search import hamming
from vdsh_tf.training.trainer import runs

flags.DEFINE_string("run_dir", None, "Run of the codes; default the newest.")
flags.DEFINE_string("codes", None, "File of codes; default RUN_DIR/codes.npy.")
flags.DEFINE_string("ids", None, ".npy of integers; default row numbers.")
flags.DEFINE_string(
    "index", None,
    "faiss:path or milvus:uri#collection; default faiss:RUN_DIR/index.npz.",
)  # fmt: skip
flags.DEFINE_enum("kind", "flat", hamming.KINDS, "How to search.")
flags.DEFINE_bool("append", False, "Add to an index that exists.")
flags.DEFINE_bool("overwrite", False, "Replace an index that exists.")
FLAGS = flags.FLAGS

_ROWS = 1 << 16


def read_ids(path, count):
    """Ids from a file, or None."""
    if path is None:
        return None
    try:
        ids = np.load(path, allow_pickle=False)
    except (EOFError, ValueError) as error:
        raise ValueError(
            f"--ids must name a .npy file of integers. Received: {path}. "
            f"Cause: {error}"
        ) from error
    return checks.check_ids(ids, count)


def build(directory: runs.RunDirectory) -> str:
    """Fills the index and returns its URI."""
    codes, about = code_files.read(FLAGS.codes or directory.file("codes.npy"))
    ids = read_ids(FLAGS.ids, len(codes))
    uri = FLAGS.index or f"faiss:{directory.file('index.npz')}"
    maker = about["fingerprint"]
    if FLAGS.append:
        index = engines.open_index(uri, maker)
    else:
        index = engines.create_index(
            uri, about["bits"], FLAGS.kind, maker, FLAGS.overwrite
        )
    bar = keras.utils.Progbar(
        len(codes), unit_name="code", verbose=int(sys.stdout.isatty())
    )
    for start in range(0, len(codes), _ROWS):
        part = np.array(codes[start : start + _ROWS])
        numbers = None if ids is None else ids[start : start + _ROWS]
        index.add(part, numbers)
        bar.update(start + len(part))
    index.save()
    print(f"{len(index)} codes of {index.bits} bits, {index.kind}")
    return uri


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    try:
        if FLAGS.append and FLAGS.overwrite:
            raise ValueError("Give --append or --overwrite, not both.")
        if FLAGS.codes and FLAGS.index:
            print(build(None))
        else:
            print(build(runs.select(FLAGS.run_dir)))
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    logging.set_verbosity(logging.WARNING)
    app.run(main)
