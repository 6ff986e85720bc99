"""Figure 3: maps of pixels and of layers, from the network of Figure 2."""

import itertools

import numpy as np

from vdsh_tf.data import datasets
from vdsh_tf.research.reproduction import convergence
from vdsh_tf.research.reproduction import maps
from vdsh_tf.research.reproduction.sections import Section
from vdsh_tf.research.reproduction.sections import Table
from vdsh_tf.research.reproduction.sections import complete
from vdsh_tf.research.reproduction.sections import each
from vdsh_tf.research.reproduction.sections import judge
from vdsh_tf.research.reproduction.sections import undecided
from vdsh_tf.research.reproduction.tasks import Figure
from vdsh_tf.research.reproduction.tasks import Outcome
from vdsh_tf.research.reproduction.tasks import Task

SHOWN = (0, 1, 2, 4, 8)
POINTS = {"smoke": 200, "small": 1000, "full": 2000}


def map_task(layer: int, budget: str, data: str = "mnist") -> Task:
    """The map of one layer's outputs for training rows."""
    source = convergence.train_task(convergence.BEST, budget, data)
    count = POINTS[budget]

    def compute(context):
        split = context.data.split(data, convergence.ROWS[budget])
        index = np.random.default_rng(0).permutation(len(split.train))[:count]
        part = split.train.take(index)
        theta = context.store.arrays(*source.place)
        z = np.asarray(datasets.unit_rows(part.x))
        for m in range(1, layer + 1):
            z = np.maximum(z @ theta[f"theta_{m}"], 0)
        return Outcome(maps.describe(z, part.y, 0))

    return Task(
        "layers",
        f"layer_{layer}",
        {"layer": layer, "points": count, "network": source.settings},
        compute,
        cost=5,
        headline=("silhouette",),
    )


def plan(budget: str) -> list[Task]:
    """The network at beta .1, then a map of each layer that is shown."""
    return [
        convergence.train_task(convergence.BEST, budget),
        *[map_task(layer, budget) for layer in SHOWN],
    ]


def show(results, budget: str, folder: str) -> Section:
    """Maps of pixels and layers side by side."""
    panels = {
        "pixels" if layer == 0 else f"layer {layer}": results.get(
            "layers", f"layer_{layer}"
        )
        for layer in SHOWN
    }
    rows = [
        [name, *([None] * 2 if r is None else [r["silhouette"], r["distinct"]])]
        for name, r in panels.items()
    ]
    return Section(
        "layers: maps of pixels and layers",
        "Figure 3, t-SNE of training samples: with each layer the classes are "
        "better separated, best by the last layer's outputs.",
        f"The network of `convergence` at beta .1; {POINTS[budget]:,} training "
        "images. The silhouette is of the features themselves, not of the map.",
        [(maps.draw(panels, folder, "layers"), "t-SNE by layer")],
        [
            Table(
                "layers",
                "Separation of classes",
                ["features", "silhouette", "distinct rows"],
                rows,
            )
        ],
        verdicts({k: r and r["silhouette"] for k, r in panels.items()}),
    )


def verdicts(silhouette: dict[str, float | None]) -> list:
    """Whether depth separates classes."""
    texts = (
        "Classes are better separated with more layers",
        "Outputs of layer 8 are the best separated",
    )
    known = complete(silhouette)
    if known is None:
        return undecided(texts, "All maps are needed.")
    values = list(known.values())
    shown = each(known, "{:.2f}")
    falls = sum(b < a for a, b in itertools.pairwise(values))
    return [
        judge(
            texts[0],
            falls <= 1 and values[-1] > values[0],
            "Rule: the silhouette rises from pixels to layer 8 and falls at "
            "most once on the way. " + shown,
        ),
        judge(
            texts[1],
            max(values) == values[-1],
            "Rule: layer 8 has the largest silhouette. " + shown,
        ),
    ]


FIGURE = Figure("layers", "maps of layers", plan, show)
