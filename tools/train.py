"""Trains a hashing network by ADMM and measures how well its codes retrieve.

    python tools/train.py
    python tools/train.py --preset=mnist --data_dir=/path/to/tfds
    python tools/train.py --preset=cifar10_cnn --path=features.npz
    python tools/train.py --data=npz --path=mine.npz
    python tools/train.py --data=shards --path='data/*.parquet'
    python tools/train.py --resume
    python tools/train.py --workers=2

Presets, with the time of training on two CPU cores and the mAP on the queries
(64 bits unless stated; mean of three seeds, seed 0 where marked):

    digits         8 layers x 128, 32 bits                 4 s  .993 (seed 0)
    mnist_small    8 x 64, 32 bits                        38 s  .978 (seed 0)
    mnist          48 x 256                          116-126 s  .987
    cifar10_gist   16 x 512, GIST computed once      135-140 s  .724
    cifar10_cnn    16 x 512, features by --path      162-180 s  .907
    multilabel     16 x 512, by --path: tmc2007_500  104-127 s  .725
                                        corel16k001    55-66 s  .313
    mnist_64x1024  the paper's largest network       498-888 s  .989 (seed 0)

Without a preset, --data other than digits takes "auto", for data of your own:
8 layers x 512, 64 bits. Every setting is a flag and overrides the preset;
--stages reads layers:epochs:rate, with commas between stages. A run directory
holds config.json, model.keras, history.csv, metrics.json, convergence.png and
TensorBoard logs. Interrupted training resumes from its last checkpoint
with --resume, on the same data.

--workers=N divides every batch among N processes on this machine. On several
machines, run the same command on each with TF_CONFIG set, and --run_dir in a
folder that all of them see; the first worker writes. Results are those of one
worker. See docs/scaling.md.
"""

import dataclasses
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import ClassVar
from typing import Self

from absl import logging

from vdsh_tf import files
from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import SWITCH
from vdsh_tf.config import Rule
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import interrupts
from vdsh_tf.tools import scaffold
from vdsh_tf.tools import training_flags
from vdsh_tf.training import cluster

if TYPE_CHECKING:
    from vdsh_tf.training import runs
    from vdsh_tf.training.team import Team


@dataclasses.dataclass(frozen=True)
class Args(training_flags.TrainingFlags):
    """Flags of this tool."""

    FIRST: ClassVar[tuple[str, ...]] = (
        "preset",
        "data",
        "path",
        "data_dir",
        "layers",
        "width",
        "bits",
        "epochs",
        "seed",
        "run_dir",
        "resume",
        "workers",
        "verbose",
        "schedule",
    )

    run_dir: str | None = setting(
        None, ANY, "New folder; default runs/PRESET-NNN."
    )
    resume: bool = setting(
        False, SWITCH, "Resume --run_dir, or the newest unfinished run."
    )
    workers: int | None = setting(
        None, COUNT, "Processes on this machine that share every batch."
    )
    # The command line, for the workers.
    given: tuple[str, ...] = ()
    verbose: int | None = setting(
        None,
        Rule("0, 1 or 2", "as in Keras", lambda v: v in (0, 1, 2)),
        "0 silent, 1 bar, 2 one line per epoch; default 1 on a terminal, "
        "else 2.",
    )

    @classmethod
    def defaults(cls, argv: Sequence[str]) -> Self:
        """Settings for own data where neither preset nor digits is named."""
        preset, data = flags.peek(("preset", "data"), argv)
        if preset is None and data not in (None, "digits"):
            argv = [*argv, "--preset=auto"]
        return dataclasses.replace(super().defaults(argv), given=tuple(argv))


def train(args: Args) -> None:
    """Trains a new run, or resumes one, and prints its results."""
    place = cluster.from_environment(os.environ)
    if place is None and args.workers is not None and args.workers > 1:
        return launch(args.workers, args.given)
    verbose = args.verbose
    if verbose is None:
        verbose = 1 if sys.stdout.isatty() else 2
    if place is not None and len(place.addresses) > 1:
        return work(args, place, verbose)
    from vdsh_tf.training import trainer

    if not args.resume:
        directory, split = create(args)
        return run(directory, split, verbose)
    directory = open_unfinished(args.run_dir)
    with files.locked(directory.path):
        check_settings(args, directory)
        place = args.config.source
        split = trainer.load_data(directory.config, place.data_dir, place.path)
        run(directory, split, verbose)


def launch(count: int, given: Sequence[str]) -> None:
    """Starts workers on this machine, with the other flags that were given."""
    flags_left = iter(given)
    argv = []
    for flag in flags_left:
        if flag == "--workers":
            next(flags_left)
        elif not flag.startswith("--workers="):
            argv.append(flag)
    command = [sys.executable, "-m", "vdsh_tf.tools.train", *argv]
    cluster.launch(count, command)


def work(args: Args, place: cluster.Cluster, verbose: int) -> None:
    """Trains as one of several workers."""
    from vdsh_tf.training import runs
    from vdsh_tf.training import team as team_lib
    from vdsh_tf.training import trainer

    team = team_lib.Team(place)
    where = args.config.source

    def unfinished():
        directory = open_unfinished(args.run_dir)
        check_settings(args, directory)
        return directory.path

    if args.resume:
        directory = runs.RunDirectory(team.from_chief(unfinished))
        split = trainer.load_data(directory.config, where.data_dir, where.path)
    else:
        split = trainer.load_data(args.settings)
        # Before there is a directory.
        trainer.check_same(team, args.settings, split)
        path = team.from_chief(lambda: create(args, split)[0].path)
        directory = runs.RunDirectory(path)
    run(directory, split, verbose, team)


def run(
    directory: "runs.RunDirectory",
    split,
    verbose: int,
    team: "Team | None" = None,
) -> None:
    """Trains from the last epoch there is, and prints the results."""
    from vdsh_tf.training import trainer

    logging.info(
        "%s: %d to train on, %d queries; run directory %s",
        split.name,
        len(split.train),
        len(split.query),
        directory.path,
    )
    with interrupts.keeping(lambda: kept(directory)):
        result = trainer.train(directory, split, verbose, team)
    if team is None or team.is_chief:
        report(directory, result)


def kept(directory: "runs.RunDirectory") -> str:
    """What an interrupted run has on disk, and how to go on."""
    if directory.finished:
        return f"{directory.path} is finished"
    _, done = directory.last_checkpoint() or (None, 0)
    command = f"{scaffold.program(train)} --resume --run_dir={directory.path}"
    return (
        f"{directory.path} keeps {done} of {directory.config.epochs} epochs. "
        f"Resume with `{command}`"
    )


def create(args: Args, split=None):
    """A new run directory, and the data to train on, loaded if not given."""
    from vdsh_tf.training import runs
    from vdsh_tf.training import trainer

    config = args.settings
    if args.preset == "auto":
        logging.info(
            "Settings for --data=%s: %d layers x %d, %d bits, stages %s.",
            config.source.data,
            config.layers,
            config.network.width,
            config.network.bits,
            config.stages,
        )
    if split is None:
        split = trainer.load_data(config)
    # Bad settings must show before there is a directory.
    trainer.build_model(config, split.num_classes)
    name = config.source.data if args.preset == "auto" else args.preset
    name = re.sub(r"\W+", "-", name).strip("-")
    path = args.run_dir or runs.new_path(runs.ROOT, name)
    return runs.RunDirectory.create(path, config), split


def open_unfinished(path: str | None) -> "runs.RunDirectory":
    """The run to resume."""
    from vdsh_tf.training import runs

    if path:
        directory = runs.RunDirectory.open(path)
    else:
        directory = runs.newest(runs.ROOT, finished=False)
    if directory.finished:
        raise ValueError(
            f"{directory.path} must be unfinished to resume; it is finished. "
            "Start another run without --resume."
        )
    return directory


def check_settings(args: Args, directory: "runs.RunDirectory") -> None:
    """Refuses settings that the run to resume does not have."""
    wanted, stored, untouched = map(
        training_flags.apart_from_place,
        (args.settings, directory.config, Args.defaults(()).settings),
    )
    if wanted not in (stored, untouched):
        raise ValueError(
            "A resumed run must keep its settings, those of "
            f"{directory.file('config.json')}; the flags say others. Leave "
            "them out, or start another run without --resume."
        )


def report(directory: "runs.RunDirectory", result: dict) -> None:
    """Prints the results table."""
    from vdsh_tf.training import runs

    print(
        f"\n{result['layers']} layers x {result['width']}, "
        f"{result['bits']} bits; {result['queries']} queries against "
        f"{result['database']} items; trained in "
        f"{result['train_seconds']:.1f} s"
    )
    print(runs.results_table(result))
    print(f"\nRun directory: {directory.path}")


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(train, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
