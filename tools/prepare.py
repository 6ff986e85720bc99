"""Prepares a trained run for a search service or a static site.

    python tools/prepare.py                     # the newest run's database
    python tools/prepare.py --run_dir=runs/mnist-001 --out=served

Exports the encoder as ONNX unless it is there, encodes the run's database, and
writes index, payloads (the labels), embeddings, pictures and a map of the codes
to RUN_DIR/service (or --out). `python tools/serve.py` does this by itself where
it is needed. Half a minute for `digits` and for 69,000 digits of MNIST.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import ClassVar

from vdsh_tf.config import ANY
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import run_flags
from vdsh_tf.tools import scaffold


@dataclasses.dataclass(frozen=True)
class Args(run_flags.RunFlags):
    """Flags of this tool."""

    FIRST: ClassVar = ("run_dir", "out")

    out: str | None = setting(
        None, ANY, "New folder; default RUN_DIR/service.", flag=flags.FOLDER
    )


def prepare(args: Args) -> None:
    """Writes the folder and prints what is in it."""
    from vdsh_tf.service import preparing

    directory = args.directory
    out = args.out or directory.file("service")
    database = args.split.database
    encoder = directory.file("export", "encoder.onnx")
    if not os.path.isfile(encoder):
        export_encoder(args)
    with scaffold.progress(len(database), "row") as progress:
        preparing.prepare(
            out,
            encoder,
            database.x,
            payloads(database.y),
            directory.image_shape,
            title(args),
            "label" if database.y.ndim == 1 else None,
            progress=progress,
        )
    print(f"{len(database)} items")
    print(out)


def export_encoder(args: Args) -> None:
    """Writes the run's encoder.onnx, checked as `tools/export.py` does."""
    from vdsh_tf.export import exporter

    exporter.export(
        args.model,
        args.directory.config.source.data,
        args.directory.file("export"),
        ("onnx",),
        rows=args.split.train.x,
        image_shape=args.directory.image_shape,
    )


def payloads(labels) -> list[dict]:
    """A payload for each item: its label, or its labels."""
    if labels.ndim == 1:
        return [{"label": int(label)} for label in labels]
    return [{"labels": row.nonzero()[0].tolist()} for row in labels]


def title(args: Args) -> str:
    """A name of the run, to show."""
    name = args.directory.config.source.data
    if name in ("npz", "images") and args.directory.config.source.path:
        name = os.path.basename(args.directory.config.source.path)
    return {"mnist": "MNIST", "digits": "Digits"}.get(name, name)


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(prepare, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
