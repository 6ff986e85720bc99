"""Measures exported encoders: parity, size, speed, quantisation, serving.

    python tools/benchmarks/export.py --run_dirs=runs/mnist-001,runs/digits-001
    python tools/benchmarks/export.py --rows=20000 --requests=500   # a minute

Exports each run to a temporary folder first, with its check. Prints tables
and writes all numbers to --json. The full size takes about a quarter of an
hour on two cores; leave the machine alone meanwhile, for times are medians
of repeats within one process.
"""

import dataclasses
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import SWITCH
from vdsh_tf.config import Rule
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold

if TYPE_CHECKING:
    from vdsh_tf.training.runs import RunDirectory

PARTS = ("parity", "size", "speed", "quantize", "serve")


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    run_dirs: tuple[str, ...] = setting(
        (),
        ANY,
        "Finished runs; default the newest.",
        flag={"type": flags.texts, "metavar": "FOLDER,FOLDER"},
    )
    data_dir: str | None = setting(None, ANY, "Data folder, if it has moved.")
    rows: int = setting(1_000_000, COUNT, "Rows of the parity check.")
    repeats: int = setting(15, COUNT, "Times that a speed is taken.")
    requests: int = setting(10_000, COUNT, "Requests of the load test.")
    threads: int = setting(16, COUNT, "Threads of the load test.")
    parts: tuple[str, ...] = setting(
        PARTS,
        Rule(
            f"some of {', '.join(PARTS)}",
            "which are what can be measured",
            lambda v: set(v) <= set(PARTS),
        ),
        "What to measure.",
        flag=flags.TEXTS,
    )
    litert: bool = setting(False, SWITCH, "Measure LiteRT, too.")
    json: str | None = setting(
        None, ANY, "File for all numbers.", flag=flags.FILE
    )


def measure(args: Args, directory: "RunDirectory", folder: str) -> dict:
    """All parts for one run."""
    import numpy as np
    import threadpoolctl

    from vdsh_tf.export import exporter
    from vdsh_tf.export import onnx_file
    from vdsh_tf.export import runtimes
    from vdsh_tf.research.benchmarks import exported
    from vdsh_tf.research.benchmarks import serving_load
    from vdsh_tf.training import runs
    from vdsh_tf.training import trainer

    data = directory.config.source.data
    model = runs.load_model(directory.file("model.keras"))
    split = trainer.load_data(directory.config, data_dir=args.data_dir)
    result = exporter.export(
        model,
        data,
        folder,
        exporter.FORMATS if args.litert else exporter.DEFAULT_FORMATS,
        rows=split.train.x,
        quantized=True,
        image_shape=directory.image_shape,
    )
    built = {os.path.basename(path): path for path in result.paths}
    built[runtimes.SAVED_MODEL] = built.pop("1")
    real = np.concatenate([split.query.x, split.database.x])
    real = real.astype(np.float32)
    name = f"{data} {model.encoder.num_layers} layers"
    found = {"metadata": result.metadata.to_strings()}
    if "parity" in args.parts:
        found["parity"] = exported.measure_parity(
            model, result.metadata, built, real, args.rows
        )
        show(f"{name}: parity with float64", found["parity"])
    if "size" in args.parts:
        found["size"] = exported.measure_size(model, built)
        show(f"{name}: size by weights", [found["size"]["ratio"]])
    if "speed" in args.parts:
        with threadpoolctl.threadpool_limits(1):
            found["speed"] = exported.measure_speed(
                model, built, real, args.repeats
            )
        show(f"{name}: encoding, one thread", found["speed"])
    if "quantize" in args.parts:
        found["quantize"] = exported.measure_quantized(
            built, split, model.encoder.bits
        )
        show(f"{name}: static quantisation", [found["quantize"]])
    if "serve" in args.parts:
        some = real[: args.requests]
        found["serve"] = serving_load.measure(
            os.path.join(folder, runtimes.SAVED_MODEL),
            some,
            exported.codes(onnx_file.Session(built[runtimes.ONNX]), some),
            args.requests,
            args.threads,
        )
        show(f"{name}: client against the test server", found["serve"])
    return found


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


def benchmark(args: Args) -> None:
    """Measures all runs and writes the numbers."""
    from vdsh_tf import files
    from vdsh_tf.training import runs

    results = {}
    for path in args.run_dirs or [runs.newest(runs.ROOT).path]:
        directory = runs.RunDirectory.open(path)
        with tempfile.TemporaryDirectory() as folder:
            results[path] = measure(args, directory, folder)
    if args.json:
        files.write_json(args.json, results)


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(benchmark, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
