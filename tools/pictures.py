"""Draws the pictures of the documents.

    python tools/pictures.py --data_dir=/path/to/tfds
    python tools/pictures.py --what=neighbours_cifar10 --data_dir=...
    python tools/pictures.py --what=training

neighbours          queries of MNIST and their nearest, 8 x 256, 64 bits
neighbours_cifar10  the same of CIFAR-10, by GIST, 16 x 512, 64 bits
curves              precision and recall on MNIST beside other methods
map                 t-SNE of pixels and of codes, MNIST
training            mAP over time beside Adam, from training_search.json and
                    training_class.json in docs/results/raw, which are what
                    `tools/benchmarks/training.py --what=quality` writes with
                    --goal=search and --goal=class

Trains what it needs by `fit` alone, seed 0: 3 minutes on two cores for MNIST,
4 for CIFAR-10 (whose GIST features are kept).
"""

import dataclasses
import functools
import json
import os
import sys
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold

KINDS = ("neighbours", "curves", "map", "training", "neighbours_cifar10")
PHOTOGRAPHS = ("neighbours_cifar10",)
# Places in the ranking; a class has about 6,900 of MNIST's items and 5,900 of
# CIFAR-10's.
RANKS = (1, 2, 3, 4, 10, 100, 1000, 3000, 5000, 6000, 7000, 10000, 30000)
FEW_RANKS = (1, 2, 3, 4, 10, 100, 1000, 3000, 10000)
LEGEND = "number: bits away"


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    what: tuple[str, ...] = setting(
        KINDS, ANY, f"Which: {', '.join(KINDS)}.", flag=flags.TEXTS
    )
    data_dir: str | None = setting(
        None, ANY, "Prepared tensorflow-datasets folder.", flag=flags.FOLDER
    )
    raw: str = setting(
        "docs/results/raw",
        ANY,
        "Folder with the numbers of the picture `training`.",
        flag=flags.FOLDER,
    )
    epochs: int = setting(10, COUNT, "Epochs of each network.")
    out: str = setting(
        "docs/pictures", ANY, "Folder to write to.", flag=flags.FOLDER
    )

    def path(self, name: str) -> str:
        """Where a picture goes."""
        ending = "jpg" if name in PHOTOGRAPHS else "png"
        return os.path.join(self.out, f"{name}.{ending}")


def draw(args: Args) -> None:
    """Draws what was asked for."""
    unknown = sorted(set(args.what) - set(KINDS))
    if unknown:
        raise ValueError(
            f"--what must name pictures: {', '.join(KINDS)}. Received: "
            f"{', '.join(unknown)}."
        )
    os.makedirs(args.out, exist_ok=True)
    for name in args.what:
        globals()[f"draw_{name}"](args)
        print(f"wrote {args.path(name)}")


@functools.cache
def mnist(args: Args, goal: str):
    """MNIST by 8 layers x 256 and 64 bits."""
    from vdsh_tf.data import datasets
    from vdsh_tf.research.documents import measured

    split = datasets.load("mnist", data_dir=args.data_dir)
    return measured.train(split, split, goal, 8, 256, 64, args.epochs)


def draw_neighbours(args: Args) -> None:
    from vdsh_tf.research.documents import measured
    from vdsh_tf.research.documents import pictures

    rows = measured.nearest(mnist(args, "search"), RANKS)
    title = f"MNIST, 69,000 items ranked by 64-bit codes; {LEGEND}"
    pictures.neighbour_rows(rows, RANKS, title, args.path("neighbours"))


def draw_neighbours_cifar10(args: Args) -> None:
    from vdsh_tf.data import datasets
    from vdsh_tf.research.documents import measured
    from vdsh_tf.research.documents import pictures

    split = datasets.load("cifar10_gist", data_dir=args.data_dir)
    shown = datasets.load("cifar10", data_dir=args.data_dir)
    coded = measured.train(split, shown, "search", 16, 512, 64, args.epochs)
    rows = measured.nearest(coded, FEW_RANKS)
    title = f"CIFAR-10 by GIST, 59,000 items; {LEGEND}"
    path = args.path("neighbours_cifar10")
    pictures.neighbour_rows(rows, FEW_RANKS, title, path)


def draw_curves(args: Args) -> None:
    from vdsh_tf.research.documents import measured
    from vdsh_tf.research.documents import pictures

    counts = {
        f"VDSH, goal {goal}": mnist(args, goal).counts()
        for goal in ("class", "search")
    }
    counts.update(measured.rivals(mnist(args, "search").split, 64))
    title = (
        "MNIST, 64 bits, 1,000 queries among 69,000 items that were trained on"
    )
    pictures.precision_recall(counts, title, args.path("curves"))


def draw_map(args: Args) -> None:
    import numpy as np

    from vdsh_tf.research.documents import pictures
    from vdsh_tf.research.reproduction import maps

    panels: dict[str, dict] = {}
    for goal in ("search", "class"):
        coded = mnist(args, goal)
        query = coded.split.query
        panels.setdefault("pixels", maps.describe(query.x, query.y, 0))
        bits = np.unpackbits(coded.query, axis=1)
        panels[f"64 bits, goal {goal}"] = maps.describe(bits, query.y, 0)
    title = "1,000 queries of MNIST, never trained on, by t-SNE"
    pictures.code_map(panels, title, args.path("map"))


def draw_training(args: Args) -> None:
    from vdsh_tf.research.documents import pictures

    lines: dict[str, list[dict]] = {}
    for goal in ("search", "class"):
        with open(os.path.join(args.raw, f"training_{goal}.json")) as f:
            found = json.load(f)
        for name, points in found.items():
            ours = name.startswith("VDSH")
            lines.setdefault(f"VDSH, goal {goal}" if ours else "Adam", points)
    title = "MNIST, 8 layers x 256, 64 bits: one network, by ADMM and by Adam"
    pictures.quality_over_time(lines, title, args.path("training"))


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(draw, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
