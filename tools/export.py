"""Writes a trained run for serving, and checks that all runtimes agree.

    python tools/export.py --onnx               # the newest finished run
    python tools/export.py --saved_model --run_dir=runs/mnist-001
    python tools/export.py --onnx --quantize=static --out=served
    python tools/export.py --onnx --backbone=extractor.keras

Without --onnx, --saved_model and --litert it writes the first two. Files go to
RUN_DIR/export (or --out): encoder.onnx, encoder_pixels.onnx for pictures,
encoder_u8.onnx when quantised, encoder.tflite, saved_model/N, models.config.
With --backbone, the network that made the features comes before the encoder:
encoder_images.onnx and saved_model_images/N take pictures and give codes
(`tools/encode.py --images=photos/`). keras:NAME downloads weights.
A run of `digits` takes about ten seconds, MNIST 48x256 about half a minute.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import ClassVar

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import run_flags
from vdsh_tf.tools import scaffold

if TYPE_CHECKING:
    from vdsh_tf.export import exporter


@dataclasses.dataclass(frozen=True)
class Args(run_flags.RunFlags):
    """Flags of this tool."""

    FIRST: ClassVar = ("onnx", "saved_model", "litert", "run_dir", "out")

    onnx: bool = setting(False, SWITCH, "Write ONNX.")
    saved_model: bool = setting(False, SWITCH, "Write a SavedModel.")
    litert: bool = setting(False, SWITCH, "Write LiteRT (TFLite).")
    out: str | None = setting(
        None, ANY, "Output folder; default RUN_DIR/export.", flag=flags.FOLDER
    )
    quantize: str | None = setting(
        None, ANY, "Write a U8U8 ONNX file, too.", flag={"choices": ["static"]}
    )
    check: bool = setting(
        True, SWITCH, "Compare all runtimes before publishing."
    )
    opset: int = setting(18, COUNT, "ONNX operator set.")
    backbone: str | None = setting(
        None,
        ANY,
        "What made the features: .keras, .onnx, or keras:NAME to download.",
        flag=flags.FILE,
    )
    backbone_pixels: str = setting(
        "raw",
        ANY,
        "Pixels as it takes them: 0 to 255, 0 to 1, -1 to 1, ImageNet's.",
        flag={"choices": ["raw", "unit", "signed", "imagenet"]},
    )
    backbone_features: str | None = setting(
        None, ANY, "Its layer or tensor that gives features; default the last."
    )
    image_size: int | None = setting(
        None, COUNT, "Height and width of pictures, where it takes any."
    )


def export(args: Args) -> None:
    """Exports a run and prints what was written."""
    from vdsh_tf.export import exporter

    directory = args.directory
    if not directory.finished:
        raise ValueError(
            f"The run must be finished before it is exported. Received: "
            f"{directory.path}, which has no metrics.json. Finish it with "
            f"`python tools/train.py --resume --run_dir={directory.path}`."
        )
    formats = tuple(name for name in exporter.FORMATS if getattr(args, name))
    if args.backbone is not None:
        return export_joined(args, formats)
    result = exporter.export(
        args.model,
        directory.config.source.data,
        args.out or directory.file("export"),
        formats or exporter.DEFAULT_FORMATS,
        rows=training_rows(args),
        quantized=args.quantize is not None,
        check=args.check,
        opset=args.opset,
        image_shape=directory.image_shape,
    )
    report(result)


def export_joined(args: Args, formats: tuple[str, ...]) -> None:
    """Exports backbone and encoder as one, and prints what was written."""
    from vdsh_tf.export import backbones
    from vdsh_tf.export import exporter
    from vdsh_tf.export import joined
    from vdsh_tf.export import parity

    if not formats:
        is_onnx = args.backbone and args.backbone.endswith(".onnx")
        formats = ("onnx",) if is_onnx else exporter.DEFAULT_FORMATS
    wanted = backbones.Wanted(
        str(args.backbone),
        args.backbone_pixels,
        args.image_size,
        args.backbone_features,
    )
    paths, reports, about = joined.export(
        args.model,
        args.directory.config.source.data,
        wanted,
        args.out or args.directory.file("export"),
        formats,
        check=args.check,
        opset=args.opset,
    )
    shape = ", ".join(map(str, about.image_shape or ()))
    print(f"model {about.fingerprint}, pictures uint8 [batch, {shape}]")
    for path in paths:
        print(f"  {size(path):>12,} bytes  {path}")
    print(parity.table(reports) if reports else "parity: not checked")


def training_rows(args: Args):
    """Raw training rows, or None where nothing needs them."""
    if not args.check and args.quantize is None:
        return None
    try:
        rows = args.split.train.x
        # A sample stands for rows that stay on disk.
        return rows.sample() if hasattr(rows, "sample") else rows
    except (ValueError, OSError, RuntimeError) as error:
        raise RuntimeError(
            "The training data must be at hand, to check the runtimes with "
            "real rows and to quantise. Give its place with --data_dir or "
            f"--path, or leave both out with --nocheck. Cause: {error}"
        ) from error


def report(result: "exporter.Result") -> None:
    """Prints what was written and how well it agrees."""
    from vdsh_tf.export import parity

    print(f"model {result.metadata.fingerprint}")
    for path in result.paths:
        print(f"  {size(path):>12,} bytes  {path}")
    print("signatures")
    for line in result.signatures:
        print(f"  {line}")
    if result.reports:
        print("parity with float64 (s: response of the code layer)")
        print(parity.table(result.reports))
    else:
        print("parity: not checked (--nocheck)")
    if result.quantized_flips is not None:
        print(f"quantised: {result.quantized_flips:.4%} of bits differ")


def size(path: str) -> int:
    """Bytes of a file or of all files in a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
    )


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(export, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
