"""Computes the paper's experiments and writes a report beside its statements.

    python tools/reproduce.py --all --data_dir=/path/to/tfds \\
        --features_dir=/path/to/features
    python tools/reproduce.py --figure=convergence
    python tools/reproduce.py --report

Figures: convergence, layers, time, architecture, retrieval, tsne-codes, radius,
multilabel, few-shot, backprop. Budgets:

    smoke   a few rows and steps, to see that everything runs; numbers mean
            nothing: 5 minutes
    small   every figure in less than 60 minutes on two cores
    full    all rows, presets as they are, every code length: days

Results go to --out: one JSON file a point, CSV tables, pictures (PNG and SVG),
REPORT.md. A finished point is never computed again, so an interrupted run goes
on where it stopped; with another budget, settings differ and points are
computed anew, so give each its own --out. A point that fails is reported, the
others go on, and the exit code is 1.
"""

import logging as python_logging
import sys

from absl import app
from absl import flags
from absl import logging

from vdsh_tf.research.reproduction import figures
from vdsh_tf.research.reproduction import points
from vdsh_tf.research.reproduction import report
from vdsh_tf.research.reproduction import runner
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction.tasks import Context

flags.DEFINE_list(
    "figure", [], "Figures to compute: " + ", ".join(figures.FIGURES)
)
flags.DEFINE_bool("all", False, "Compute every figure.")
flags.DEFINE_bool("report", False, "Only write the report of what is there.")
flags.DEFINE_string("budget", "small", "small, full, or smoke to try it out.")
flags.DEFINE_string("out", "runs/reproduce", "Folder for results and report.")
flags.DEFINE_string("data_dir", None, "Prepared tensorflow-datasets folder.")
flags.DEFINE_string(
    "features_dir", None,
    "Folder with " + ", ".join(f[0] for f in sources.FILES.values())
    + "; default VDSH_FEATURES_DIR.",
)  # fmt: skip
for _name, (_file, _what, _) in sources.FILES.items():
    flags.DEFINE_string(f"{_name}_path", None, f"{_file}: {_what}.")
FLAGS = flags.FLAGS


def chosen() -> list:
    """The figures that the flags name."""
    if FLAGS.all or (FLAGS.report and not FLAGS.figure):
        return list(figures.FIGURES.values())
    if not FLAGS.figure:
        raise ValueError(
            "Give --figure=NAME, --all or --report. Figures: "
            f"{', '.join(figures.FIGURES)}."
        )
    return [figures.get(name) for name in FLAGS.figure]


def compute(store, found, budget) -> list[runner.Failure]:
    """Computes the points of the figures, a line each."""
    paths = {name: FLAGS[f"{name}_path"].value for name in sources.FILES}
    data = sources.Library(FLAGS.data_dir, FLAGS.features_dir, paths)
    tasks = [task for figure in found for task in figure.plan(budget)]
    return runner.run(
        tasks, Context(store, data), lambda line: print(line, flush=True)
    )


def failure_text(failures) -> str:
    """The list of what failed, each reason once."""
    by_reason = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure.title)
    lines = [f"error: {len(failures)} points could not be computed."]
    for reason, titles in by_reason.items():
        shown = ", ".join(titles[:6])
        more = f" and {len(titles) - 6} more" if len(titles) > 6 else ""
        lines.append(f"  {shown}{more}: {reason}")
    return "\n".join(lines)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    failures = []
    try:
        budget = figures.check_budget(FLAGS.budget)
        found = chosen()
        store = points.PointStore(FLAGS.out)
        if not FLAGS.report:
            failures = compute(store, found, budget)
        # A report of one figure alone would hide those made before.
        path = report.write(store, list(figures.FIGURES.values()), budget)
        print(f"wrote {path}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on where it stopped")
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    if failures:
        sys.exit(failure_text(failures))


if __name__ == "__main__":
    logging.set_verbosity(logging.WARNING)
    # Every point traces its own graphs; TensorFlow warns of that.
    python_logging.getLogger("tensorflow").setLevel(python_logging.ERROR)
    app.run(main)
