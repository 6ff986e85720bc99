"""Measures ADMM against back-propagation, and what a training step costs.

    python tools/benchmarks/training.py --what=quality --data_dir=/path/to/tfds
    python tools/benchmarks/training.py --depths=8,16,48 --data_dir=...
    python tools/benchmarks/training.py --what=cost
    python tools/benchmarks/training.py --what=share
    python tools/benchmarks/training.py --what=step

quality  mAP, P@r2 and R@r2 over training time for VDSH and for the same network
         in plain Keras with Adam: 11 minutes for 48 layers, two baselines and
         a grown one.
cost     seconds per step for 4 to 64 layers and 32 to 1024 units: 3 minutes.
share    matmul throughput inside a step against a bare loop: 1 minute.
step     time of a step over that of Keras with Adam, both by XLA on raw rows;
         the same with the targets of goal search, which Adam does not have;
         and Adam over itself, which says how noisy the machine is. Two steps
         share a process, because ratios depend on how a process lies in
         memory; --repeats=5 takes the median over five processes: 15 minutes.

Every setting of VDSH is a flag, as in tools/train.py; with
--validation_per_class quality is measured on rows held out of the training
part, to choose a setting. Each writes JSON and a picture to --out and prints a
table. Times of steps are medians taken in turns in one process; compare
ratios, not seconds.
"""

import dataclasses
import functools
import os
import statistics
import sys
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from vdsh_tf import files
from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold
from vdsh_tf.tools import training_flags
from vdsh_tf.training.config import TrainingConfig

VDSH = "VDSH (ADMM)"
# What the two steps of a process are, see `steps.pair`.
STEP_RIVALS = {
    "labels": "VDSH / Adam",
    "search": "VDSH, goal search / Adam",
    "control": "Adam / Adam",
}


@dataclasses.dataclass(frozen=True)
class Args(training_flags.TrainingFlags):
    """Flags of this tool."""

    DEFAULT: ClassVar[str] = "mnist"
    FIRST: ClassVar[tuple[str, ...]] = (
        "what",
        "preset",
        "data",
        "path",
        "data_dir",
        "depths",
        "baseline",
        "admm",
        "repeats",
        "seed",
        "out",
        "layers",
        "epochs",
        "schedule",
    )

    what: str = setting(
        "quality",
        ANY,
        "What to measure.",
        flag={"choices": ["quality", "cost", "share", "step"]},
    )
    out: str = setting(
        "runs/benchmark",
        ANY,
        "Folder for JSON and pictures.",
        flag=flags.FOLDER,
    )
    depths: tuple[int, ...] = setting(
        (), ANY, "Depths to compare at; default --layers.", flag=flags.INTEGERS
    )
    baseline: tuple[str, ...] = setting(
        (),
        ANY,
        "A setting of back-propagation; give the flag once for each. It reads "
        '"START STAGES [SETTING=VALUE ...]", such as "looks_linear 48:10:3e-4 '
        'dropout=0.1": an initializer, stages as of VDSH, and settings that '
        "are not VDSH's. It runs where its last stage is as deep as VDSH. "
        "Default: the best ones found for the preset mnist at each depth.",
        flag={"action": "append"},
    )
    admm: bool = setting(True, SWITCH, "Train VDSH, too.")
    repeats: int = setting(
        1,
        COUNT,
        "Seeds to take the mean over, from --seed on; of a step, processes.",
    )

    def write(self, name: str, data) -> None:
        """Writes one result file."""
        os.makedirs(self.out, exist_ok=True)
        path = os.path.join(self.out, f"{name}.json")
        files.write_json(path, data)
        print(f"wrote {path}")


def benchmark(args: Args) -> None:
    """Measures what was asked for."""
    measure = {
        "quality": compare_quality,
        "cost": measure_cost,
        "share": measure_share,
        "step": measure_step,
    }
    measure[args.what](args)


def compare_quality(args: Args) -> None:
    """Trains every method in turn, depth by depth and seed by seed."""
    from vdsh_tf.research.benchmarks import plots
    from vdsh_tf.research.benchmarks import quality
    from vdsh_tf.research.benchmarks import rivals

    first = args.settings
    depths = args.depths or (first.layers,)
    configs = [first.with_layers(layers) for layers in depths]
    texts = list(args.baseline)
    baselines = {c.layers: rivals.at_depth(c.layers, texts) for c in configs}
    rivals.check_depths(texts, list(baselines))
    means = {}
    for config in configs:
        found = [
            quality_lines(
                args, config.replace(seed=seed), baselines[config.layers]
            )
            for seed in range(config.seed, config.seed + args.repeats)
        ]
        mean = {
            name: quality.mean_points([lines[name] for lines in found])
            for name in found[0]
        }
        means[f"{config.layers} layers"] = mean
        plots.quality_over_time(means, os.path.join(args.out, "quality.png"))
        report_quality(config.layers, mean, found)


def quality_lines(args: Args, config: TrainingConfig, baselines) -> dict:
    """Quality over time of every method for one depth and seed."""
    from vdsh_tf.research.benchmarks import quality
    from vdsh_tf.training import trainer

    if config.source.validation_per_class:
        config = config.replace(on_validation=True)
    split = trainer.load_data(config)
    lines = {}

    def keep(name, points):
        lines[name] = points
        args.write(
            f"quality-{config.layers}layers-seed{config.seed}",
            {k: [p._asdict() for p in v] for k, v in lines.items()},
        )

    if args.admm:
        stages = config.stages
        logging.info("%s, %s, seed %d", VDSH, stages, config.seed)
        keep(VDSH, quality.run_admm(config, split))
    for baseline in baselines:
        logging.info("%s, seed %d", baseline.name, config.seed)
        keep(baseline.name, quality.run_baseline(baseline, config, split))
    return lines


def report_quality(layers, mean, found) -> None:
    """Prints each method's end, and VDSH's time to get there."""
    from vdsh_tf.research.benchmarks import quality

    print(
        f"\n{f'{layers} layers':60} {'mAP':>6} {'P@r2':>6} {'R@r2':>6} "
        f"{'s':>6} {'mean':>6} {'first':>6} {'stay':>6} {'then':>6}"
    )
    for name, points in mean.items():
        end = points[-1]
        line = (
            f"{name:60} {end.map:6.4f} {end.precision_r2:6.4f} "
            f"{end.recall_r2:6.4f} {end.seconds:6.1f}"
        )
        if VDSH in mean:
            line += f" {ratio([(mean[VDSH], end)], quality.time_to):>6}"
            pairs = [(lines[VDSH], lines[name][-1]) for lines in found]
            line += f" {ratio(pairs, quality.time_to):>6}"
            line += f" {ratio(pairs, quality.time_to_stay):>6}"
            then = quality.at_time(mean[VDSH], end.seconds)
            line += f" {'-' if then is None else f'{then.map:.4f}':>6}"
        print(line)
    print(
        "mean: time until VDSH's mean line has the method's mean mAP, over the "
        "method's own time; first, stay: the mean of that over seeds, once "
        "and for good; then: VDSH's mAP after the method's time.\n"
        f"Means over {len(found)} seed(s)."
    )


def ratio(pairs, time_to) -> str:
    """Mean of VDSH's time to a method's end over the method's time."""
    times = [(time_to(ours, end.map), end.seconds) for ours, end in pairs]
    if any(reached is None for reached, _ in times):
        return "never"
    return f"{statistics.mean(ours / theirs for ours, theirs in times):.3f}"


def measure_cost(args: Args) -> None:
    """Time of a step against depth and width."""
    from vdsh_tf.research.benchmarks import plots

    result = {}
    for width in (64, 256):
        sizes = [4, 8, 16, 32, 48, 64]
        result[f"layers, {width} wide"] = cost_line(
            sizes, [(784, n, width, 64, 256) for n in sizes]
        )
    sizes = [32, 64, 128, 256, 512, 1024]
    result["width, 8 layers"] = cost_line(
        sizes, [(784, 8, n, 64, 256) for n in sizes]
    )
    args.write("cost", result)
    plots.cost(result, os.path.join(args.out, "cost.png"))


def cost_line(
    sizes: list[int], shapes: list[tuple[int, int, int, int, int]]
) -> dict:
    """Seconds per step of networks of rising size, and their exponent."""
    from vdsh_tf.research.benchmarks import steps

    made = {
        n: steps.training_step(*s, jit_compile=True)
        for n, s in zip(sizes, shapes, strict=True)
    }
    seconds = list(steps.seconds_each(made).values())
    large = [i for i, n in enumerate(sizes) if n > 128 or max(sizes) <= 64]
    fit = steps.exponent([sizes[i] for i in large], [seconds[i] for i in large])
    print(f"{sizes} -> {[round(1e3 * s, 2) for s in seconds]} ms: {fit:.2f}")
    return {"sizes": sizes, "seconds": seconds, "exponent": fit}


def measure_share(args: Args) -> None:
    """Matmuls alone against the whole step, at several sizes."""
    sizes = ((48, 256, 256), (48, 256, 1024), (8, 1024, 256))
    rows = [share(*size) for size in sizes]
    args.write("share", {"share": rows, "scan": measure_scan()})


def share(layers: int, width: int, batch: int) -> dict:
    """Time of a network's matmuls as a share of its step's."""
    from vdsh_tf.research.benchmarks import steps

    shape = (784, layers, width, 64, batch)
    seconds = steps.seconds_each(
        {
            "bare": steps.bare_matmuls(*shape),
            "step": steps.training_step(*shape),
            "step_xla": steps.training_step(*shape, jit_compile=True),
        }
    )
    shares = {n: seconds["bare"] / seconds[n] for n in ("step", "step_xla")}
    print(
        f"{layers} x {width}, batch {batch}: bare "
        f"{1e3 * seconds['bare']:.1f} ms; step "
        f"{1e3 * seconds['step']:.1f} ms, share {shares['step']:.2f}; "
        f"with XLA {1e3 * seconds['step_xla']:.1f} ms, share "
        f"{shares['step_xla']:.2f}",
        flush=True,
    )
    return {
        "layers": layers,
        "width": width,
        "batch": batch,
        "seconds": seconds,
        "share": shares,
    }


def measure_step(args: Args) -> None:
    """A step of VDSH over one of Keras with Adam, in turns."""
    from vdsh_tf.research.benchmarks import memory

    pair_of = functools.partial(
        memory.alone, "vdsh_tf.research.benchmarks.steps", "pair"
    )
    rows = []
    width = args.settings.network.width
    for layers in args.depths or (4, 8, 16, 48):
        row = {"layers": layers, "width": width}
        for rival in STEP_RIVALS:
            found = [
                pair_of((784, layers, width, 64, 256), rival)
                for _ in range(args.repeats)
            ]
            ratios = [pair["first"] / pair["second"] for pair in found]
            row[rival] = {"seconds": found, "ratios": ratios}
            shown = " ".join(f"{r:.3f}" for r in sorted(ratios))
            print(
                f"{layers} x {width}, batch 256, {STEP_RIVALS[rival]}: "
                f"{statistics.median(ratios):.3f} (processes: {shown})",
                flush=True,
            )
        rows.append(row)
    args.write("step", rows)


def measure_scan() -> dict:
    """Equal layers written out against one stacked kernel scanned."""
    from vdsh_tf.research.benchmarks import steps

    made = {
        name: steps.layer_chain(48, 256, 256, name == "scanned")
        for name in ("unrolled", "scanned")
    }
    first = {name: steps.first_call(step) for name, step in made.items()}
    seconds = steps.seconds_each(made)
    for name in made:
        print(
            f"48 x 256, products alone, {name}: compiled in "
            f"{first[name]:.1f} s, {1e3 * seconds[name]:.1f} ms"
        )
    return {"first_call": first, "seconds": seconds}


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(benchmark, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
