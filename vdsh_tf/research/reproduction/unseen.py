"""Beside the paper's protocol: items, and classes, never trained on."""

import dataclasses

import numpy as np

from vdsh_tf.evaluation import splits
from vdsh_tf.research.reproduction import methods
from vdsh_tf.research.reproduction import networks
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction import style
from vdsh_tf.research.reproduction.sections import Section
from vdsh_tf.research.reproduction.sections import Table
from vdsh_tf.research.reproduction.sections import Verdict
from vdsh_tf.research.reproduction.sections import judge
from vdsh_tf.research.reproduction.tasks import Figure
from vdsh_tf.research.reproduction.tasks import Outcome
from vdsh_tf.research.reproduction.tasks import Task
from vdsh_tf.training.config import TrainingConfig

BITS = 64
# VDSH with both goals, and what it is compared with.
GOALS = {"vdsh": "search", "vdsh_class": "class"}
RIVALS = ("class_id", "backprop", "sdh", "cca_itq", "itq", "lsh")
# Real vectors ranked by cosine: of VDSH's network, and as they come.
BOUNDS = ("embedding", "raw")
WIDTHS = {"mnist": 256, "cifar10_cnn": 512, "tmc2007_500": 512}
SEEDS = {"smoke": (0,), "small": (0,), "full": (0, 1, 2)}
ROWS_PER_CLASS = {"mnist": 500, "cifar10_cnn": 500, "tmc2007_500": 100}


@dataclasses.dataclass(frozen=True)
class Protocol:
    """One way to search in what was not trained on.

    Attributes:
        figure: its name.
        title: heading.
        trained: what the second number is about.
        meaning: what it says to a user.
        data: data sets.
        epochs: VDSH's.
        unseen_classes: those without a label; None for few rows of each.
    """

    figure: str
    title: str
    trained: str
    meaning: str
    data: tuple[str, ...]
    epochs: int
    unseen_classes: str | None = None

    def options(self, data: str, budget: str) -> dict[str, str | int]:
        """What `datasets.load` is told."""
        if self.unseen_classes is not None:
            return {"unseen_classes": self.unseen_classes}
        smoke = budget == "smoke"
        return {"train_per_class": 20 if smoke else ROWS_PER_CLASS[data]}


ITEMS = Protocol(
    "unseen-items",
    "items never trained on",
    "trained-on rows",
    "For a user: how well items are found that come later than training, when "
    "a few hundred rows per class had labels; beside it how well the rows "
    "that were trained on are found, which is all that the paper's protocol "
    "shows.",
    tuple(WIDTHS),
    10,
)
CLASSES = Protocol(
    "unseen-classes",
    "classes that had no label",
    "trained classes",
    "For a user: how well items of kinds are found that nobody has labelled; "
    "beside it how well those of the labelled kinds are found.",
    ("mnist", "cifar10_cnn"),
    4,
    "7,8,9",
)


def vdsh_config(
    protocol: Protocol, data: str, name: str, budget: str
) -> TrainingConfig:
    """`fit` as it comes, 4 layers."""
    config = TrainingConfig().replace(
        layers=4,
        width=WIDTHS[data],
        bits=BITS,
        epochs=protocol.epochs,
        goal=GOALS[name],
    )
    if budget == "smoke":
        return networks.shortened(config, 0.0, 4, 64)
    return config


def point(
    protocol: Protocol, data: str, name: str, seed: int, budget: str
) -> Task:
    """One method on one data set with one seed, which is the split's too."""
    rows, options = methods.ROWS[budget], protocol.options(data, budget)
    settings = {"data": data, "rows": rows, "method": name, "bits": BITS}
    settings |= {"seed": seed, **options}
    config = None
    if name in GOALS:
        config = vdsh_config(protocol, data, name, budget).replace(seed=seed)
        settings["config"] = networks.config_settings(config)
    elif name in RIVALS:
        settings["options"] = methods.options_of(name, budget)

    def compute(context):
        split = context.data.split(data, rows, seed=seed, **options)
        if config is not None:
            return Outcome(_train_vdsh(config, split))
        if name == "raw":
            return Outcome(splits.evaluate_cosine(lambda x: x, split))
        fit = methods.method_fit(name, BITS, settings["options"], seed)
        return Outcome(_measure(*fit(split)[:2], split))

    return Task(
        protocol.figure,
        f"{data}-{name}-seed_{seed}",
        settings,
        compute,
        cost=5 if budget == "smoke" else 15,
    )


def _measure(encode, seconds, split):
    result, _ = splits.evaluate(encode, split, BITS)
    return {**result, "train_seconds": round(seconds, 2)}


def _train_vdsh(config, split):
    model, seconds = networks.train(config, split)
    result = _measure(model.encode, seconds, split)
    result["cosine"] = splits.evaluate_cosine(
        lambda x: model.predict(x, batch_size=1024, verbose=0), split
    )
    return result


def plan(protocol: Protocol, budget: str) -> list[Task]:
    """Every method on every data set."""
    return [
        point(protocol, data, name, seed, budget)
        for data in protocol.data
        for seed in SEEDS[budget]
        for name in (*GOALS, *RIVALS, "raw")
    ]


def read(results, protocol: Protocol, data: str, budget: str) -> dict:
    """Each method's numbers, means over seeds; None if a seed is missing."""
    found: dict[str, dict | None] = {}
    for name in (*GOALS, *RIVALS, *BOUNDS):
        place = "vdsh" if name == "embedding" else name
        keys = [f"{data}-{place}-seed_{seed}" for seed in SEEDS[budget]]
        runs = [results.get(protocol.figure, key) for key in keys]
        if name == "embedding":
            runs = [run and run["cosine"] for run in runs]
        found[name] = mean(runs) if all(runs) else None
    return found


def mean(runs: list[dict]) -> dict:
    """Means of the numbers that are shown."""
    flat = [{**run, "trained": run["trained"]["map"]} for run in runs]
    shown = ("map", "trained", "precision_r2", "ndcg_100", "train_seconds")
    return {
        key: float(np.mean([run[key] for run in flat]))
        for key in shown
        if key in flat[0]
    }


def show(protocol: Protocol, results, budget: str, folder: str) -> Section:
    """Bars and a table for each data set."""
    found = {d: read(results, protocol, d, budget) for d in protocol.data}
    name = protocol.figure
    return Section(
        f"{name}: {protocol.title}",
        "It searches in what was trained on. Sablayrolles, Douze, Usunier and "
        'Jegou ("How should we evaluate supervised hashing?", 2017) show that '
        "there a classifier's answer is as good a code as any, and ask for "
        "items and classes that were not trained on.",
        f"{protocols_text(protocol, budget)}. {protocol.meaning} 100 queries "
        "per class. VDSH is `fit` as it comes: 4 layers, "
        f"{protocol.epochs} epochs. `cosine` ranks real vectors and is a "
        "bound for their codes.",
        [(draw(found, protocol, folder), f"mAP: {protocol.title}")],
        [table(numbers, protocol, d) for d, numbers in found.items()],
        [verdict(numbers, d) for d, numbers in found.items()],
    )


def protocols_text(protocol: Protocol, budget: str) -> str:
    """The protocol as the tools' flags say it."""
    texts = {
        sources.TITLES[data]: ", ".join(
            f"`--{k}={v}`" for k, v in protocol.options(data, budget).items()
        )
        for data in protocol.data
    }
    return "; ".join(f"{title}: {text}" for title, text in texts.items())


def table(numbers: dict, protocol: Protocol, data: str) -> Table:
    """Both figures of every method."""
    heads = {
        "map": "mAP, never trained on",
        "trained": f"mAP, {protocol.trained}",
        "precision_r2": "P@r2",
        "ndcg_100": "NDCG@100",
        "train_seconds": "training s",
    }
    if data != "tmc2007_500":
        del heads["ndcg_100"]
    rows = []
    for name, values in numbers.items():
        # A bound has no balls and no training of its own.
        lacking = "" if values else None
        cells = [(values or {}).get(key, lacking) for key in heads]
        if isinstance(cells[-1], float):
            cells[-1] = f"{cells[-1]:.1f}"
        rows.append([style.TITLES[name], *cells])
    title = f"{sources.TITLES[data]}, {protocol.title}, {BITS} bits"
    name = f"{protocol.figure}_{data}"
    return Table(name, title, ["method", *heads.values()], rows)


def verdict(numbers: dict, data: str) -> Verdict:
    """VDSH against every other method that makes codes."""
    text = f"{sources.TITLES[data]}: VDSH is ahead of every other method here"
    ours = numbers["vdsh"]
    others = {n: numbers[n] for n in RIVALS if numbers[n] is not None}
    if ours is None or len(others) < len(RIVALS):
        return judge(text, None, "All methods are needed.")
    best = max(others, key=lambda name: others[name]["map"])
    return judge(
        text,
        ours["map"] > others[best]["map"],
        "Rule: larger mAP among what was never trained on. VDSH "
        f"{ours['map']:.3f}, {style.TITLES[best]} {others[best]['map']:.3f}.",
    )


def draw(found: dict, protocol: Protocol, folder: str) -> str:
    """A bar for what was never trained on, a mark for what was."""
    picture = style.new_figure(4.6 * len(found), 4.2)
    panels = np.atleast_1d(picture.subplots(1, len(found), sharey=True))
    for axes, (data, numbers) in zip(panels, found.items(), strict=True):
        shown = {n: v for n, v in numbers.items() if v is not None}
        for name, values in shown.items():
            title = style.TITLES[name]
            axes.barh(title, values["map"], color=style.COLORS[name])
            axes.plot(values["trained"], title, "D", color="#d62728", ms=5)
        axes.set(title=sources.TITLES[data], xlim=(0, 1.02))
        axes.set_xlabel(f"mAP (diamond: {protocol.trained})")
        axes.grid(alpha=0.3, axis="x")
    if panels[0].has_data():
        panels[0].invert_yaxis()
    return style.save(picture, folder, protocol.figure)


def figure(protocol: Protocol) -> Figure:
    """The protocol's experiment."""
    return Figure(
        protocol.figure,
        protocol.title,
        lambda budget: plan(protocol, budget),
        lambda *given: show(protocol, *given),
    )


ITEMS_FIGURE = figure(ITEMS)
CLASSES_FIGURE = figure(CLASSES)
