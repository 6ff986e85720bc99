"""Measures ADMM against back-propagation, and what a training step costs.

    python tools/benchmark.py --what=quality --data_dir=/path/to/tfds
    python tools/benchmark.py --depths=8,16,48 --data_dir=/path/to/tfds
    python tools/benchmark.py --what=cost
    python tools/benchmark.py --what=share

quality  mAP, P@r2 and R@r2 over training time for VDSH and for the same network
         in plain Keras with Adam: 11 minutes for 48 layers, two baselines and
         a grown one.
cost     seconds a step for 4 to 64 layers and 32 to 1024 units: 3 minutes.
share    matmul throughput inside a step against a bare loop: 1 minute.

Every setting of VDSH is a flag, as in tools/train.py; with
--validation_per_class quality is measured on rows held out of the training
part, to choose a setting. Each writes JSON and a picture to --out and prints a
table. Times of steps are medians taken in turns in one process; compare ratios,
not seconds.
"""

import dataclasses
import json
import os
import statistics
import sys

import run_flags
from absl import app
from absl import flags
from absl import logging

from vdsh_tf import files
from vdsh_tf.evaluation import plots
from vdsh_tf.research.benchmarks import quality
from vdsh_tf.research.benchmarks import rivals
from vdsh_tf.research.benchmarks import steps
from vdsh_tf.training.trainer import trainer

run_flags.define("mnist")
flags.DEFINE_enum("what", "quality", ["quality", "cost", "share"], "Which.")
flags.DEFINE_string("out", "runs/benchmark", "Folder for JSON and pictures.")
flags.DEFINE_list("depths", [], "Depths to compare at; default --layers.")
flags.DEFINE_multi_string(
    "baseline",
    [],
    "A setting of back-propagation; give the flag once for each. It reads "
    f"{rivals.HELP} It runs where its last stage is as deep as VDSH; "
    "settings that are not named are VDSH's. Default: the best ones found for "
    "the preset mnist at each depth.",
)
flags.DEFINE_bool("admm", True, "Train VDSH, too.")
flags.DEFINE_integer(
    "repeats", 1, "Seeds to take the mean over, from --seed on.", lower_bound=1
)
FLAGS = flags.FLAGS
VDSH = "VDSH (ADMM)"


def write(name: str, data) -> None:
    """Writes one result file."""
    os.makedirs(FLAGS.out, exist_ok=True)
    path = os.path.join(FLAGS.out, f"{name}.json")
    files.write_text(path, json.dumps(data, indent=2) + "\n")
    print(f"wrote {path}")


def compare_quality() -> None:
    """Trains every method in turn, depth by depth and seed by seed."""
    first = run_flags.settings()
    runs = [first.with_layers(n) for n in depths(first)]
    baselines = {
        r.layers: rivals.at_depth(r.layers, FLAGS.baseline) for r in runs
    }
    rivals.check_depths(FLAGS.baseline, list(baselines))
    means = {}
    for run in runs:
        found = [
            quality_lines(
                dataclasses.replace(run, seed=seed), baselines[run.layers]
            )
            for seed in range(run.seed, run.seed + FLAGS.repeats)
        ]
        mean = {
            name: quality.mean_points([lines[name] for lines in found])
            for name in found[0]
        }
        means[f"{run.layers} layers"] = mean
        plots.quality_over_time(means, os.path.join(FLAGS.out, "quality.png"))
        report_quality(run.layers, mean, found)


def depths(run) -> list[int]:
    """The depths asked for, or the run's own."""
    try:
        return [int(text) for text in FLAGS.depths] or [run.layers]
    except ValueError as error:
        raise ValueError(
            "`depths` must be integers with commas between them, such as "
            f"8,16,48. Received: {','.join(FLAGS.depths)}."
        ) from error


def quality_lines(run, baselines) -> dict:
    """Quality over time of every method for one depth and seed."""
    split = trainer.load_data(run)
    if run.validation_per_class:
        split = split.rehearsal()
    lines = {}

    def keep(name, points):
        lines[name] = points
        write(
            f"quality-{run.layers}layers-seed{run.seed}",
            {k: [p._asdict() for p in v] for k, v in lines.items()},
        )

    if FLAGS.admm:
        logging.info("%s, %s, seed %d", VDSH, run.stages, run.seed)
        keep(VDSH, quality.run_admm(run, split))
    for baseline in baselines:
        logging.info("%s, seed %d", baseline.name, run.seed)
        keep(baseline.name, quality.run_baseline(baseline, run, split))
    return lines


def report_quality(layers, mean, found) -> None:
    """Prints each method's end, and VDSH's time to get there."""
    print(
        f"\n{f'{layers} layers':60} {'mAP':>6} {'P@r2':>6} {'R@r2':>6} "
        f"{'s':>6} {'first':>6} {'stay':>6} {'then':>6}"
    )
    for name, points in mean.items():
        end = points[-1]
        line = (
            f"{name:60} {end.map:6.4f} {end.precision_r2:6.4f} "
            f"{end.recall_r2:6.4f} {end.seconds:6.1f}"
        )
        if VDSH in mean:
            pairs = [(lines[VDSH], lines[name][-1]) for lines in found]
            line += f" {ratio(pairs, quality.time_to):>6}"
            line += f" {ratio(pairs, quality.time_to_stay):>6}"
            then = quality.at_time(mean[VDSH], end.seconds)
            line += f" {'-' if then is None else f'{then.map:.4f}':>6}"
        print(line)
    print(
        "first, stay: VDSH's time to that mAP, once and for good, over the "
        "method's own time; then: VDSH's mAP after that time.\n"
        f"Means over {len(found)} seed(s)."
    )


def ratio(pairs, time_to) -> str:
    """Mean of VDSH's time to a method's end over the method's time."""
    times = [(time_to(ours, end.map), end.seconds) for ours, end in pairs]
    if any(reached is None for reached, _ in times):
        return "never"
    return f"{statistics.mean(ours / theirs for ours, theirs in times):.3f}"


def measure_cost() -> None:
    """Time of a step against depth and width."""
    result = {}
    for width in (64, 256):
        sizes = [4, 8, 16, 32, 48, 64]
        result[f"layers, {width} wide"] = _cost_line(
            sizes, [(784, n, width, 64, 256) for n in sizes]
        )
    sizes = [32, 64, 128, 256, 512, 1024]
    result["width, 8 layers"] = _cost_line(
        sizes, [(784, 8, n, 64, 256) for n in sizes]
    )
    write("cost", result)
    plots.cost(result, os.path.join(FLAGS.out, "cost.png"))


def _cost_line(sizes, shapes):
    made = {
        n: steps.training_step(*s, jit_compile=True)
        for n, s in zip(sizes, shapes, strict=True)
    }
    seconds = list(steps.seconds_each(made).values())
    large = [i for i, n in enumerate(sizes) if n > 128 or max(sizes) <= 64]
    fit = steps.exponent([sizes[i] for i in large], [seconds[i] for i in large])
    print(f"{sizes} -> {[round(1e3 * s, 2) for s in seconds]} ms: {fit:.2f}")
    return {"sizes": sizes, "seconds": seconds, "exponent": fit}


def measure_share() -> None:
    """Matmuls alone against the whole step, at several sizes."""
    rows = []
    for layers, width, batch in (
        (48, 256, 256),
        (48, 256, 1024),
        (8, 1024, 256),
    ):
        shape = (784, layers, width, 64, batch)
        seconds = steps.seconds_each(
            {
                "bare": steps.bare_matmuls(*shape),
                "step": steps.training_step(*shape),
                "step_xla": steps.training_step(*shape, jit_compile=True),
            }
        )
        share = {
            name: seconds["bare"] / seconds[name]
            for name in ("step", "step_xla")
        }
        rows.append({"layers": layers, "width": width, "batch": batch,
                     "seconds": seconds, "share": share})  # fmt: skip
        print(f"{layers} x {width}, batch {batch}: bare "
              f"{1e3 * seconds['bare']:.1f} ms; step "
              f"{1e3 * seconds['step']:.1f} ms, share {share['step']:.2f}; "
              f"with XLA {1e3 * seconds['step_xla']:.1f} ms, share "
              f"{share['step_xla']:.2f}")  # fmt: skip
    write("share", {"share": rows, "scan": measure_scan()})


def measure_scan() -> dict:
    """Equal layers written out against one stacked kernel scanned."""
    made = {
        name: steps.layer_chain(48, 256, 256, name == "scanned")
        for name in ("unrolled", "scanned")
    }
    first = {name: steps.first_call(step) for name, step in made.items()}
    seconds = steps.seconds_each(made)
    for name in made:
        print(f"48 x 256, products alone, {name}: compiled in "
              f"{first[name]:.1f} s, {1e3 * seconds[name]:.1f} ms")  # fmt: skip
    return {"first_call": first, "seconds": seconds}


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    try:
        {"quality": compare_quality, "cost": measure_cost,
         "share": measure_share}[FLAGS.what]()  # fmt: skip
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    logging.set_verbosity(logging.INFO)
    app.run(main)
