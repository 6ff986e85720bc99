"""Measures a trained run again: queries against the database.

    python tools/evaluate.py                    # the newest finished run
    python tools/evaluate.py --run_dir=runs/mnist-001 --json

Prints the table of metrics.json, made anew from model.keras and the data. Data
that has changed since training is refused, and so are other numbers than those
of metrics.json (by a hundredth; rounding differs between processors). Leaves
curves.json and curves.png in the run directory: precision and recall over rank
(the expectation over random order among equal distances) and over radius.
Seconds for digits, half a minute for MNIST.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence

from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import run_flags
from vdsh_tf.tools import scaffold


@dataclasses.dataclass(frozen=True)
class Args(run_flags.RunFlags):
    """Flags of this tool."""

    json: bool = setting(False, SWITCH, "Print JSON instead of a table.")


def evaluate(args: Args) -> None:
    """Measures the run, and leaves its curves in the run directory."""
    from vdsh_tf.evaluation import plots
    from vdsh_tf.training import provenance
    from vdsh_tf.training import runs
    from vdsh_tf.training import trainer

    directory = args.directory
    result, curves = trainer.evaluate_with_curves(args.model, args.split)
    provenance.check_metrics(directory, result)
    directory.write_json("curves.json", curves)
    plots.retrieval_curves(curves, directory.file("curves.png"))
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print(directory.path)
        print(runs.results_table(result))
        print(f"Curves: {directory.file('curves.png')}, curves.json")


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(evaluate, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
