"""Writes a trained run for serving, and checks that all runtimes agree.

    python tools/export.py --onnx               # the newest finished run
    python tools/export.py --saved_model --run_dir=runs/mnist-001
    python tools/export.py --onnx --quantize=static --out=served

Without --onnx, --saved_model and --litert it writes the first two. Files go to
RUN_DIR/export (or --out): encoder.onnx, encoder_pixels.onnx for pictures,
encoder_u8.onnx when quantised, encoder.tflite, saved_model/N, models.config.
A run of `digits` takes about ten seconds, MNIST 48x256 about half a minute.
"""

import os
import sys

# Python looks for modules beside the script first, and would take this file
# for the package `export`: look in the folder above before.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from absl import app
from absl import flags
from absl import logging
from vdsh_tf.export import exporter
from vdsh_tf.export import parity

from vdsh_tf.training.trainer import runs
from vdsh_tf.training.trainer import trainer

flags.DEFINE_bool("onnx", False, "Write ONNX.")
flags.DEFINE_bool("saved_model", False, "Write a SavedModel.")
flags.DEFINE_bool("litert", False, "Write LiteRT (TFLite).")
flags.DEFINE_string("run_dir", None, "Finished run; default the newest.")
flags.DEFINE_string("out", None, "Output folder; default RUN_DIR/export.")
flags.DEFINE_enum("quantize", None, ["static"], "Write a U8U8 ONNX file too.")
flags.DEFINE_bool("check", True, "Compare all runtimes before publishing.")
flags.DEFINE_integer("opset", 18, "ONNX operator set.")
flags.DEFINE_string("data_dir", None, "Data folder, if it has moved.")
flags.DEFINE_string("path", None, "Features file, if it has moved.")
FLAGS = flags.FLAGS


def open_run() -> runs.RunDirectory:
    """The run to export, which must be finished."""
    if not FLAGS.run_dir:
        return runs.newest(runs.ROOT)
    directory = runs.RunDirectory.open(FLAGS.run_dir)
    if not directory.finished:
        raise ValueError(
            f"The run must be finished before it is exported. Received: "
            f"{directory.path}, which has no metrics.json. Finish it with "
            f"`python tools/train.py --resume --run_dir={directory.path}`."
        )
    return directory


def training_rows(directory: runs.RunDirectory):
    """Raw training rows, or None where nothing needs them."""
    if not FLAGS.check and FLAGS.quantize is None:
        return None
    try:
        split = trainer.load_data(
            directory.run, data_dir=FLAGS.data_dir, path=FLAGS.path
        )
    except (ValueError, OSError, RuntimeError) as error:
        raise RuntimeError(
            "The training data must be at hand, to check the runtimes with "
            "real rows and to quantise. Give its place with --data_dir or "
            f"--path, or leave both out with --nocheck. Cause: {error}"
        ) from error
    return split.train.x


def size(path: str) -> int:
    """Bytes of a file or of all files in a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
    )


def report(result: exporter.Result) -> None:
    """Prints what was written and how well it agrees."""
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


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    try:
        directory = open_run()
        model = runs.load_model(directory.file("model.keras"))
        formats = [name for name in exporter.FORMATS if FLAGS[name].value]
        result = exporter.export(
            model,
            directory.run.data,
            FLAGS.out or directory.file("export"),
            tuple(formats) or exporter.DEFAULT_FORMATS,
            rows=training_rows(directory),
            quantized=FLAGS.quantize is not None,
            check=FLAGS.check,
            opset=FLAGS.opset,
        )
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    report(result)


if __name__ == "__main__":
    logging.set_verbosity(logging.ERROR)
    app.run(main)
