"""Measures training on shards: memory of an epoch, rate against memory.

    python tools/benchmarks/shards.py                   # 5,000,000 x 256
    python tools/benchmarks/shards.py --rows=500000 --kind=parquet

Writes synthetic shards of --classes classes (5 GB), and then, each in a process
of its own: trains a few steps in memory, whose peak is what TensorFlow takes by
itself; trains one epoch on all shards; and trains on --fits rows from memory
and from shards in turn, --repeats times, for the rate. --steps trains a part of
the epoch: pieces come from all shards in random order, so that the memory of a
part is that of the whole. Several minutes.
"""

import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold

KINDS = ("npy", "parquet", "tfrecord")
_SHARD = 50_000


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    rows: int = setting(5_000_000, COUNT, "Rows of all shards.")
    width: int = setting(256, COUNT, "Numbers in a row.")
    classes: int = setting(1000, COUNT, "Classes.")
    layers: int = setting(4, COUNT, "Depth of the network.")
    steps: int | None = setting(
        None, COUNT, "Steps of the epoch over all shards; default all."
    )
    fits: int = setting(100_000, COUNT, "Rows that fit into memory.")
    repeats: int = setting(5, COUNT, "Pairs of rates.")
    kind: str = setting("npy", ANY, "Format.", flag={"choices": KINDS})
    work: str | None = setting(
        None, ANY, "Folder for the shards; default a temporary one."
    )
    out: str | None = setting(None, ANY, "JSON file.", flag=flags.FILE)


def write(folder: str, rows: int, width: int, classes: int, kind: str) -> dict:
    """Writes shards of rows around a centre per class."""
    import numpy as np

    from vdsh_tf.data.shards import writing

    start = time.perf_counter()
    os.makedirs(folder, exist_ok=True)
    centres = np.random.default_rng(0).standard_normal((classes, width), "f4")
    for number, first in enumerate(range(0, rows, _SHARD)):
        rng = np.random.default_rng([1, number])
        y = rng.integers(0, classes, min(_SHARD, rows - first))
        x = rng.standard_normal((len(y), width), "f4") + centres[y]
        stem = os.path.join(folder, writing.shard_name(number))
        writing.WRITERS[kind](stem, x, y)
    return {"write_seconds": time.perf_counter() - start}


def make_model(layers: int, width: int, classes: int):
    """The network, 64 bits."""
    import vdsh_tf

    model = vdsh_tf.VDSH(layers, width, 64, num_classes=classes)
    model.compile()
    return model


def alone_in_memory(layers: int, width: int, classes: int) -> dict:
    """A few steps on a few rows: what TensorFlow takes by itself."""
    import numpy as np

    x = np.random.default_rng(0).standard_normal((2048, width), "f4")
    y = np.arange(2048) % classes
    make_model(layers, width, classes).fit(x, y, 256, 2, verbose=0)
    return {}


def epoch(
    folder: str, layers: int, classes: int, steps: int | None = None
) -> dict:
    """One epoch over all shards, queries left out, or its first steps."""
    from vdsh_tf.data import datasets
    from vdsh_tf.research.benchmarks import memory

    start = time.perf_counter()
    split = datasets.load("shards", path=folder, query_share=0.0002)
    opened = time.perf_counter()
    result = {"pass_seconds": opened - start, "pass_mb": memory.peak_mb()}
    datasets.load("shards", path=folder, query_share=0.0002)
    result["open_seconds"] = time.perf_counter() - opened
    model = make_model(layers, split.train.x.shape[1], classes)
    start = time.perf_counter()
    steps = steps or len(split.train) // 256
    model.fit(
        split.train.x, split.train.y, 256, 1, verbose=0, steps_per_epoch=steps
    )
    result["epoch_seconds"] = time.perf_counter() - start
    result["trained_rows"] = 256 * steps
    result["epoch_mb"] = memory.peak_mb()
    start = time.perf_counter()
    codes = model.encode(split.database.x)
    result["encode_seconds"] = time.perf_counter() - start
    result["codes"] = len(codes)
    return result


def rates(folder: str, layers: int, classes: int, fits: int, repeats: int):
    """Rows per second of epochs after the first, from both places."""
    import keras
    import numpy as np

    from vdsh_tf.data.shards import opening

    class Clock(keras.callbacks.Callback):
        """Times of epochs."""

        def on_epoch_begin(self, epoch, logs=None):
            self.started = time.perf_counter(), time.process_time()

        def on_epoch_end(self, epoch, logs=None):
            self.seconds = time.perf_counter() - self.started[0]
            self.processor = time.process_time() - self.started[1]

    rows = opening.open_rows("shards", path=folder)[:fits]
    y = rows.labels()
    x = np.concatenate(list(rows.batches(1 << 16)))
    model = make_model(layers, x.shape[1], classes)
    found: dict = {"memory": [], "shards": []}
    processor: dict = {"memory": [], "shards": []}
    for _ in range(repeats + 1):
        for name, source in (("memory", x), ("shards", rows)):
            clock = Clock()
            model.fit(source, y, 256, 2, verbose=0, callbacks=[clock])
            found[name].append(len(x) // 256 * 256 / clock.seconds)
            processor[name].append(clock.processor)
    # The first of each compiles and fills the caches.
    rate, work = (
        {name: statistics.median(values[1:]) for name, values in all.items()}
        for all in (found, processor)
    )
    return {
        "rows_per_second": found,
        "rate_of_shards_to_memory": rate["shards"] / rate["memory"],
        # Tells as much where other processes take their share.
        "processor_seconds": processor,
        "processor_of_shards_to_memory": work["shards"] / work["memory"],
    }


def alone(function: str, *args) -> dict:
    """Runs a function of this module in a new process, with its memory."""
    from vdsh_tf.research.benchmarks import memory

    return memory.alone("vdsh_tf.tools.benchmarks.shards", function, *args)


def measure(args: Args) -> None:
    """Prints the numbers, and writes them if told."""
    from vdsh_tf import files

    network = (args.layers, args.width, args.classes)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.work or os.path.join(temporary, "shards")
        result = {}
        if not os.path.isdir(folder):
            result["write"] = alone(
                "write", folder, args.rows, args.width, args.classes, args.kind
            )
        result["alone"] = alone("alone_in_memory", *network)
        result["epoch"] = alone(
            "epoch", folder, args.layers, args.classes, args.steps
        )
        result["rates"] = alone(
            "rates", folder, args.layers, args.classes, args.fits, args.repeats
        )
    whole = result["epoch"]
    beyond = whole["epoch_mb"] - result["alone"]["peak_mb"]
    report = {
        "settings": dataclasses.asdict(args),
        **result,
        "beyond_tensorflow_mb": beyond,
        "epoch_rows_per_second": whole["trained_rows"] / whole["epoch_seconds"],
    }
    print(json.dumps(report, indent=2))
    if args.out:
        files.write_json(args.out, report)


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(measure, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
