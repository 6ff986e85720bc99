"""Figure 5: quality over all code lengths against depth and width."""

import dataclasses

import numpy as np

from vdsh_tf.recipes import Stages
from vdsh_tf.research.reproduction import methods
from vdsh_tf.research.reproduction import networks
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction import style
from vdsh_tf.research.reproduction.sections import Section
from vdsh_tf.research.reproduction.sections import Table
from vdsh_tf.research.reproduction.sections import judge
from vdsh_tf.research.reproduction.sections import undecided
from vdsh_tf.research.reproduction.tasks import Figure
from vdsh_tf.research.reproduction.tasks import Outcome
from vdsh_tf.research.reproduction.tasks import Task
from vdsh_tf.training.config import TrainingConfig

DATA = ("mnist", "cifar10_gist")
METRICS = {"precision_r2": "precision, radius 2", "map": "mAP"}
DEPTHS = (4, 8, 16, 32, 64)
WIDTHS = (32, 64, 128, 256, 512, 1024)
# Small budgets vary depth and width one at a time.
SHAPES = {
    "smoke": ((4, 32), (8, 32), (8, 64)),
    "small": (
        (4, 64),
        (16, 64),
        (64, 64),
        (8, 32),
        (8, 128),
        (8, 512),
        (8, 1024),
    ),
    "full": tuple((m, d) for m in DEPTHS for d in WIDTHS),
}
BITS = {"smoke": (16, 32), "small": (16, 64), "full": (16, 32, 64, 128)}
ROWS = {"smoke": 1000, "small": 5000, "full": None}
# Epochs at 4 layers, then at full depth; None is the preset's.
EPOCHS = {"smoke": (1, 1), "small": (6, 3), "full": None}


def network_config(
    data: str, layers: int, width: int, bits: int, budget: str
) -> TrainingConfig:
    """The preset's settings for a network of another shape."""
    config = networks.preset(data, bits, "full").with_layers(layers)
    config = config.replace(width=width)
    epochs = EPOCHS[budget]
    if epochs is None:
        return config
    first, last = epochs
    stages = config.stages
    changed = Stages(
        [
            dataclasses.replace(stages[0], epochs=first),
            dataclasses.replace(stages[-1], epochs=last),
        ]
    )
    return config.replace(stages=changed)


def network_task(data, layers, width, bits, budget) -> Task:
    """One network at one code length."""
    config = network_config(data, layers, width, bits, budget)
    own, fit = methods.training("vdsh", bits, budget, config)
    rows = ROWS[budget]

    def compute(context):
        split = context.data.split(data, rows)
        return Outcome(methods.measure(fit, split, bits)[0])

    settings = {"data": data, "rows": rows, **own}
    work = layers * width**2 / 1e6
    return Task(
        "architecture",
        key(data, layers, width, bits),
        settings,
        compute,
        cost=5 if budget == "smoke" else 6 + 0.3 * layers + 2.5 * work,
        headline=("map", "precision_r2"),
        unit="bits",
    )


def key(data: str, layers: int, width: int, bits: int) -> str:
    """Name of a point."""
    return f"{data}-{layers}x{width}-{bits}"


def plan(budget: str) -> list[Task]:
    """All shapes at all code lengths, for both data sets."""
    return [
        network_task(data, layers, width, bits, budget)
        for data in DATA
        for layers, width in SHAPES[budget]
        for bits in BITS[budget]
    ]


def area(lengths, numbers) -> float | None:
    """Area under a curve over code lengths, in percent of the largest."""
    if any(number is None for number in numbers):
        return None
    span = lengths[-1] - lengths[0]
    return float(100 * np.trapezoid(numbers, lengths) / span)


def areas(results, data: str, metric: str, budget: str) -> dict:
    """The area of every shape: {(layers, width): percent or None}."""
    bits = BITS[budget]
    return {
        (m, d): area(
            bits,
            [
                results.value("architecture", key(data, m, d, b), metric)
                for b in bits
            ],
        )
        for m, d in SHAPES[budget]
    }


def show(results, budget: str, folder: str) -> Section:
    """A plot and a table for each data set."""
    plots, tables, made = [], [], []
    for data in DATA:
        found = {m: areas(results, data, m, budget) for m in METRICS}
        title = sources.TITLES[data]
        file = draw(found, title, folder, f"architecture_{data}")
        plots.append((file, f"{title}: area under quality over code length"))
        tables.append(
            Table(
                f"architecture_{data}",
                f"{title}: area over code lengths, percent",
                ["layers", "width", "precision, radius 2", "mAP"],
                [
                    [m, d, *[found[metric][m, d] for metric in METRICS]]
                    for m, d in SHAPES[budget]
                ],
                digits=1,
            )
        )
        made += verdicts(found, title)
    rows = ROWS[budget]
    return Section(
        "architecture: depth and width",
        "Figure 5, 4 to 64 layers and 32 to 1,024 nodes: larger networks are "
        "better until quality saturates, and precision and mAP behave alike.",
        f"Code lengths {', '.join(map(str, BITS[budget]))}; "
        f"{f'{rows:,}' if rows else 'all'} rows to train on and search in.",
        plots,
        tables,
        made,
    )


def lines_of(found: dict, axis: int) -> dict[int, dict[int, float]]:
    """Areas along depth (axis 0) or width (1), by the other size.

    Lines of one point are left out.
    """
    made: dict[int, dict[int, float]] = {}
    for shape, value in found.items():
        if value is not None:
            made.setdefault(shape[1 - axis], {})[shape[axis]] = value
    return {k: dict(sorted(v.items())) for k, v in made.items() if len(v) > 1}


def verdicts(found: dict, title: str) -> list:
    """Whether size helps, quality saturates, and both metrics agree."""
    texts = {
        0: f"{title}: more layers give better codes",
        1: f"{title}: more nodes give better codes",
    }
    full = f"{title}: quality saturates beyond a certain size"
    alike = f"{title}: precision and mAP behave alike"
    if any(v is None for areas in found.values() for v in areas.values()):
        every = [*texts.values(), full, alike]
        return undecided(every, "All shapes are needed.")
    made = [gain_verdict(found["map"], i, text) for i, text in texts.items()]
    made.append(saturation_verdict(found["map"], full))
    ranks = [
        np.argsort(np.argsort(list(found[metric].values())))
        for metric in METRICS
    ]
    agreement = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    made.append(
        judge(
            alike,
            agreement > 0.5,
            "Rule: rank correlation of both areas over shapes above .5. "
            f"{agreement:.2f}.",
        )
    )
    return made


def gain_verdict(areas: dict, axis: int, text: str):
    """The largest network of a line is better than the smallest."""
    gains, shown = [], []
    for other, line in lines_of(areas, axis).items():
        values = list(line.values())
        gains.append(values[-1] - values[0])
        path = ", ".join(f"{n}: {v:.1f}" for n, v in line.items())
        shown.append(f"{other} {'wide' if axis == 0 else 'deep'}: {path}")
    return judge(
        text,
        float(np.mean(gains)) > 0,
        "Rule: area of mAP at the largest size above that at the smallest, "
        f"mean over lines. {'; '.join(shown[:3])}.",
    )


def saturation_verdict(areas: dict, text: str):
    """The last step of a line gains less than the first."""
    first, last = [], []
    for axis in (0, 1):
        for line in lines_of(areas, axis).values():
            steps = np.diff(list(line.values()))
            first.append(steps[0])
            last.append(steps[-1])
    gains = float(np.mean(first)), float(np.mean(last))
    return judge(
        text,
        gains[1] < gains[0],
        "Rule: the last step to a larger network gains less area of mAP than "
        f"the first, mean over lines. First {gains[0]:+.1f}, last "
        f"{gains[1]:+.1f}.",
    )


def draw(found: dict, title: str, folder: str, name: str) -> str:
    """Areas against depth and against width, for both metrics."""
    import matplotlib

    figure = style.new_figure(12, 3.9)
    panels = figure.subplots(1, 4, sharey=True)
    colors = matplotlib.colormaps["plasma"]
    for i, (metric, label) in enumerate(METRICS.items()):
        for axis in (0, 1):
            axes = panels[2 * i + axis]
            lines = lines_of(found[metric], axis)
            for j, (other, line) in enumerate(sorted(lines.items())):
                text = f"{other} nodes" if axis == 0 else f"{other} layers"
                axes.plot(
                    line.keys(),
                    line.values(),
                    marker="o",
                    label=text,
                    color=colors(0.85 * j / max(1, len(lines) - 1)),
                )
            ticks = sorted({n for line in lines.values() for n in line})
            axes.set_xscale("log", base=2)
            axes.set_xticks(ticks, [str(n) for n in ticks])
            axes.minorticks_off()
            axes.set(title=label, xlabel=("layers", "nodes per layer")[axis])
            axes.grid(alpha=0.3)
            if lines:
                axes.legend(fontsize=8)
    panels[0].set_ylabel("area over code lengths (%)")
    figure.suptitle(title)
    return style.save(figure, folder, name)


FIGURE = Figure("architecture", "depth and width", plan, show)
