"""Measures a trained run again: queries against the database.

    python tools/evaluate.py                    # the newest finished run
    python tools/evaluate.py --run_dir=runs/mnist-001 --json

Prints the table of metrics.json, made anew from model.keras and the data; the
numbers must be the same. Leaves curves.json and curves.png in the run
directory: precision and recall over rank (the expectation over random order
among equal distances) and over radius. Seconds for digits, half a minute for
MNIST.
"""

import json
import sys

from absl import app
from absl import flags

from vdsh_tf.evaluation import plots
from vdsh_tf.training.trainer import runs
from vdsh_tf.training.trainer import trainer

flags.DEFINE_string("run_dir", None, "Run to measure; default the newest.")
flags.DEFINE_string("data_dir", None, "Data folder, if it has moved.")
flags.DEFINE_string("path", None, "Features file, if it has moved.")
flags.DEFINE_bool("json", False, "Print JSON instead of a table.")
FLAGS = flags.FLAGS


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    try:
        directory = runs.select(FLAGS.run_dir)
        model = runs.load_model(directory.file("model.keras"))
        split = trainer.load_data(
            directory.run, data_dir=FLAGS.data_dir, path=FLAGS.path
        )
        result, curves = trainer.evaluate_with_curves(model, split)
        directory.write_json("curves.json", curves)
        plots.retrieval_curves(curves, directory.file("curves.png"))
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    if FLAGS.json:
        print(json.dumps(result, indent=2))
    else:
        print(directory.path)
        print(runs.results_table(result))
        print(f"Curves: {directory.file('curves.png')}, curves.json")


if __name__ == "__main__":
    app.run(main)
