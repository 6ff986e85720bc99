"""Computes the paper's experiments and writes a report beside its statements.

    python tools/reproduce.py --all --data_dir=/path/to/tfds \\
        --features_dir=/path/to/features
    python tools/reproduce.py --figure=convergence
    python tools/reproduce.py --report

Figures: convergence, layers, time, architecture, retrieval, tsne-codes, radius,
multilabel, few-shot, backprop, unseen-items, unseen-classes. The last two have
protocols beside the paper's: few rows per class are trained on, the others are
searched in; queries and database are of classes that had no label. Budgets:

    smoke   a few rows and steps, to see that everything runs; numbers mean
            nothing: 5 minutes
    small   every figure in less than 60 minutes on two cores
    full    all rows, presets as they are, every code length: days

Results go to --out: one JSON file per point, CSV tables, pictures (PNG and
SVG), REPORT.md. A finished point is never computed again, so an interrupted
run resumes where it stopped; with another budget, settings differ and points
are computed anew, so give each its own --out. A point that fails is reported,
the others are computed, and the exit code is 1.
"""

import dataclasses
import sys
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    figure: tuple[str, ...] = setting(
        (),
        ANY,
        "Figures to compute, with commas between them.",
        flag=flags.TEXTS,
    )
    all: bool = setting(False, SWITCH, "Compute every figure.")
    report: bool = setting(
        False, SWITCH, "Only write the report of what is there."
    )
    budget: str = setting(
        "small", ANY, "small, full, or smoke to try it out.", flag=flags.NAME
    )
    out: str = setting(
        "runs/reproduce",
        ANY,
        "Folder for results and report.",
        flag=flags.FOLDER,
    )
    data_dir: str | None = setting(
        None, ANY, "Prepared tensorflow-datasets folder."
    )
    features_dir: str | None = setting(
        None,
        ANY,
        "Folder with cifar10_cnn128.npz, tmc2007_500.npz and corel16k001.npz; "
        "default VDSH_FEATURES_DIR.",
    )
    cifar10_cnn_path: str | None = setting(
        None, ANY, "cifar10_cnn128.npz: CNN features of CIFAR-10."
    )
    tmc2007_500_path: str | None = setting(
        None, ANY, "tmc2007_500.npz: tmc2007_500, multi-label text."
    )
    corel16k001_path: str | None = setting(
        None, ANY, "corel16k001.npz: corel16k001, multi-label images."
    )


def reproduce(args: Args) -> None:
    """Computes what is missing, and writes the report."""
    from vdsh_tf.research.reproduction import figures
    from vdsh_tf.research.reproduction import points
    from vdsh_tf.research.reproduction import report

    budget = figures.check_budget(args.budget)
    found = chosen(args)
    store = points.PointStore(args.out)
    failures = [] if args.report else compute(args, store, found, budget)
    # A report of one figure alone would hide those made before.
    path = report.write(store, list(figures.FIGURES.values()), budget)
    print(f"wrote {path}")
    if failures:
        raise RuntimeError(failure_text(failures))


def chosen(args: Args) -> list:
    """The figures that the flags name."""
    from vdsh_tf.research.reproduction import figures

    if args.all or (args.report and not args.figure):
        return list(figures.FIGURES.values())
    if not args.figure:
        raise ValueError(
            "Give --figure=NAME, --all or --report. Figures: "
            f"{', '.join(figures.FIGURES)}."
        )
    return [figures.get(name) for name in args.figure]


def compute(args: Args, store, found, budget) -> list:
    """Computes the points of the figures, one line each; returns failures."""
    from vdsh_tf.research.reproduction import runner
    from vdsh_tf.research.reproduction import sources
    from vdsh_tf.research.reproduction.tasks import Context

    paths = {name: getattr(args, f"{name}_path") for name in sources.FILES}
    data = sources.Library(args.data_dir, args.features_dir, paths)
    tasks = [task for figure in found for task in figure.plan(budget)]
    return runner.run(
        tasks, Context(store, data), lambda line: print(line, flush=True)
    )


def failure_text(failures) -> str:
    """The list of what failed, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure.title)
    lines = [f"{len(failures)} points could not be computed."]
    for reason, titles in by_reason.items():
        shown = ", ".join(titles[:6])
        more = f" and {len(titles) - 6} more" if len(titles) > 6 else ""
        lines.append(f"  {shown}{more}: {reason}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(
        reproduce,
        Args,
        __doc__,
        argv,
        interrupted="finished points are kept. The same command goes on there",
    )


if __name__ == "__main__":
    sys.exit(main())
