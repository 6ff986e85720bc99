"""Trains a hashing network by ADMM and measures how well its codes retrieve.

    python tools/train.py
    python tools/train.py --preset=mnist --data_dir=/path/to/tfds
    python tools/train.py --preset=cifar10_cnn --path=features.npz
    python tools/train.py --resume

Presets, with the time of training on two CPU cores and the mAP on the queries
(64 bits; mean of three seeds from `mnist` on, seed 0 above it):

    digits         8 layers x 128, 32 bits                   13 s  .996
    mnist_small    8 x 64, 32 bits                           38 s  .978
    mnist          48 x 256                                 120 s  .987
    cifar10_gist   16 x 512, GIST computed on first use     138 s  .723
    cifar10_cnn    16 x 512, features by --path             165 s  .912
    multilabel     16 x 512, by --path: tmc2007_500                .726
                                        corel16k001          51 s  .311
    mnist_64x1024  the paper's largest network              498 s  .989 (seed 0)

Every setting of a preset is a flag; `--stages` reads layers:epochs:rate, with
commas between stages. A run directory holds config.json, model.keras,
history.csv, metrics.json, convergence.png and TensorBoard logs. Interrupted
training goes on from its last epoch with --resume.
"""

import sys

import run_flags
from absl import app
from absl import flags
from absl import logging

from vdsh_tf.training.trainer import runs
from vdsh_tf.training.trainer import trainer

run_flags.define("digits")
flags.DEFINE_string("run_dir", None, "New folder; default runs/PRESET-NNN.")
flags.DEFINE_bool("resume", False, "Go on with --run_dir or the newest run.")
flags.DEFINE_integer("verbose", None, "0 silent, 1 bar, 2 a line an epoch.")
FLAGS = flags.FLAGS


def open_directory() -> runs.RunDirectory:
    """The run to continue, or None for a new one."""
    if FLAGS.run_dir:
        directory = runs.RunDirectory.open(FLAGS.run_dir)
    else:
        directory = runs.newest(runs.ROOT, finished=False)
    if directory.finished:
        raise ValueError(
            f"{directory.path} must be unfinished to resume; it is finished. "
            "Start another run without --resume."
        )
    return directory


def report(directory: runs.RunDirectory, result: dict) -> None:
    """Prints the results table."""
    print(
        f"\n{result['layers']} layers x {result['width']}, "
        f"{result['bits']} bits; {result['queries']} queries against "
        f"{result['database']} items; trained in "
        f"{result['train_seconds']:.1f} s"
    )
    print(runs.results_table(result))
    print(f"\nRun directory: {directory.path}")


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    verbose = FLAGS.verbose
    if verbose is None:
        verbose = 1 if sys.stdout.isatty() else 2
    try:
        if FLAGS.resume:
            directory = open_directory()
            split = trainer.load_data(directory.run)
        else:
            run = run_flags.settings()
            split = trainer.load_data(run)
            # Bad settings must show before there is a directory.
            trainer.build_model(run, split.num_classes)
            path = FLAGS.run_dir or runs.new_path(runs.ROOT, FLAGS.preset)
            directory = runs.RunDirectory.create(path, run)
        logging.info(
            "%s: %d to train on, %d queries; run directory %s",
            split.name, len(split.train), len(split.query), directory.path,
        )  # fmt: skip
        result = trainer.train(directory, split, verbose)
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        sys.exit(f"error: {error}")
    report(directory, result)


if __name__ == "__main__":
    logging.set_verbosity(logging.INFO)
    app.run(main)
