"""Figure 4: training time against nodes and against layers."""

import numpy as np

from vdsh_tf.research.benchmarks import steps
from vdsh_tf.research.reproduction import style
from vdsh_tf.research.reproduction.sections import Section
from vdsh_tf.research.reproduction.sections import Table
from vdsh_tf.research.reproduction.sections import judge
from vdsh_tf.research.reproduction.sections import not_testable
from vdsh_tf.research.reproduction.tasks import Figure
from vdsh_tf.research.reproduction.tasks import Outcome
from vdsh_tf.research.reproduction.tasks import Task

BATCH = 256
EPOCH = 69_000
WIDTHS = {
    "smoke": (32, 64),
    "small": (32, 64, 128, 256, 512, 1024),
    "full": (32, 64, 128, 256, 512, 1024),
}
LAYERS = {
    "smoke": (4, 8),
    "small": (4, 8, 16, 32, 64),
    "full": (4, 8, 16, 32, 48, 64),
}
ROUNDS = {"smoke": 1, "small": 5, "full": 9}
TITLES = {
    "nodes": "nodes per layer (8 layers)",
    "layers": "layers (64 nodes each)",
}


def line_task(line: str, budget: str) -> Task:
    """Time of a step at every size of a line, taken in turns."""
    sizes = _sizes(line, budget)
    rounds = ROUNDS[budget]

    def compute(context):
        made = {
            n: steps.training_step(
                784,
                n if line == "layers" else 8,
                n if line == "nodes" else 64,
                64,
                BATCH,
            )
            for n in sizes
        }
        seconds = steps.seconds_each(made, rounds=rounds, calls=4)
        return Outcome({"sizes": sizes, "seconds": list(seconds.values())})

    return Task(
        "time",
        line,
        {"sizes": sizes, "rounds": rounds, "batch": BATCH, "bits": 64},
        compute,
        cost={"smoke": 10, "small": 45, "full": 80}[budget],
        headline=(),
    )


def plan(budget: str) -> list[Task]:
    """Two lines."""
    return [line_task("nodes", budget), line_task("layers", budget)]


def large(sizes, seconds) -> tuple:
    """The upper half of a line, where fixed costs no longer dominate."""
    start = len(sizes) // 2 if len(sizes) > 3 else 0
    return sizes[start:], seconds[start:]


def show(results, budget: str, folder: str) -> Section:
    """Both lines, with their slopes."""
    found = {line: results.get("time", line) for line in TITLES}
    rows = []
    for line, result in found.items():
        sizes = result["sizes"] if result else _sizes(line, budget)
        for i, size in enumerate(sizes):
            seconds = result and result["seconds"][i]
            rows.append(
                [
                    line,
                    size,
                    seconds and 1e3 * seconds,
                    seconds and seconds * EPOCH / BATCH,
                ]
            )
    table = Table(
        "time",
        "Time of training, one sweep per batch",
        ["line", "size", "ms per step", "s per epoch of MNIST"],
        rows,
        digits=1,
    )
    return Section(
        "time: training time against nodes and layers",
        "Figure 4: on a CPU and on a GPU, time is roughly quadratic in the "
        "nodes of a layer (8 layers) and roughly linear in the layers (64 "
        "nodes).",
        f"One online step on {BATCH} rows of 784, median of turns; an epoch "
        f"is {EPOCH:,} rows. On the CPU.",
        [(draw(found, folder), "Time per epoch")],
        [table],
        verdicts(found),
    )


def verdicts(found: dict) -> list:
    """Slopes of log time over log size, for the larger half of sizes."""
    rules = {
        "nodes": ("Time is roughly quadratic in the nodes", 1.5, 2.5),
        "layers": ("Time is roughly linear in the layers", 0.8, 1.2),
    }
    made = []
    for line, (text, low, high) in rules.items():
        if found[line] is None:
            made.append(judge(text, None, f"The line `{line}` is needed."))
            continue
        part = large(found[line]["sizes"], found[line]["seconds"])
        slope = steps.exponent(*part)
        made.append(
            judge(
                text,
                low <= slope <= high,
                f"Rule: exponent from {low} to {high} over sizes "
                f"{part[0][0]} to {part[0][-1]}. Exponent {slope:.2f}.",
            )
        )
    made.append(not_testable("The same holds on a GPU", "No GPU was used."))
    return made


def draw(found: dict, folder: str) -> str:
    """Log scales; a grey line shows the slope that the paper states."""
    import matplotlib.ticker

    figure = style.new_figure(9.5, 4)
    for axes, (line, result), power in zip(
        figure.subplots(1, 2), found.items(), (2, 1), strict=True
    ):
        axes.set(xlabel=TITLES[line], ylabel="seconds per epoch, 69,000 rows")
        if result is None:
            style.mark_missing(axes)
            continue
        sizes = np.array(result["sizes"], float)
        seconds = np.array(result["seconds"]) * EPOCH / BATCH
        axes.loglog(
            sizes,
            seconds,
            color=style.COLORS["vdsh"],
            marker="o",
            linewidth=2,
            label="VDSH, CPU",
        )
        guide = seconds[-1] * (sizes / sizes[-1]) ** power
        name = {1: "linear", 2: "quadratic"}[power]
        shown = guide > seconds.min() / 3
        axes.loglog(
            sizes[shown], guide[shown], "--", color="#999999", label=name
        )
        axes.set_xticks(sizes, [f"{n:.0f}" for n in sizes])
        axes.minorticks_off()
        axes.yaxis.set_major_locator(
            matplotlib.ticker.LogLocator(subs=(1, 2, 5))
        )
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
        axes.legend()
    return style.save(figure, folder, "time")


def _sizes(line, budget):
    return (WIDTHS if line == "nodes" else LAYERS)[budget]


FIGURE = Figure("time", "training time", plan, show)
