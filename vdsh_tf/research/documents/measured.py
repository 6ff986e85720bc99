"""Codes of real data for the pictures of the documents."""

import dataclasses

import numpy as np

from vdsh_tf.config import Solver
from vdsh_tf.data import datasets
from vdsh_tf.evaluation import metrics
from vdsh_tf.research.baselines import registry
from vdsh_tf.research.documents.pictures import Hit

RIVALS = {"SDH": "sdh", "CCA-ITQ": "cca_itq", "ITQ": "itq", "LSH": "lsh"}


@dataclasses.dataclass
class Coded:
    """A split, its codes, and its pictures.

    Attributes:
        split: what was trained on.
        query, database: [n, bytes] codes.
        query_images, database_images: uint8 pictures in the same order.
    """

    split: datasets.Split
    query: np.ndarray
    database: np.ndarray
    query_images: np.ndarray
    database_images: np.ndarray

    def counts(self) -> metrics.Counts:
        """Items and hits by distance, for the curves."""
        return count(self.split, self.query, self.database)


def train(split, shown, goal, layers, width, bits, epochs, seed=0) -> Coded:
    """Trains by `fit` alone and encodes queries and database.

    Args:
        split: data to train on.
        shown: the same split of the data's pictures; `split` itself where
            rows are pixels.
        goal: of `Solver`.
        layers, width, bits, epochs, seed: of the network and its training.
    """
    import keras

    from vdsh_tf import VDSH

    if not np.array_equal(split.query.y, shown.query.y):
        raise ValueError(
            "Features and pictures must be rows of one split. Received: "
            f"{split.name} and {shown.name}, whose labels differ."
        )
    keras.utils.set_random_seed(seed)
    model = VDSH(
        layers=layers,
        width=width,
        bits=bits,
        num_classes=split.num_classes,
        seed=seed,
        solver=Solver(goal=goal),
    )
    model.compile(jit_compile=True)
    model.fit(split.train.x, split.train.y, epochs=epochs, verbose=0)
    return Coded(
        split,
        model.encode(split.query.x),
        model.encode(split.database.x),
        _images(shown.query.x, shown.image_shape),
        _images(shown.database.x, shown.image_shape),
    )


def rivals(split, bits: int, seed: int = 0) -> dict[str, metrics.Counts]:
    """Other methods on the same split."""
    found = {}
    for title, name in RIVALS.items():
        method = registry.make(name, bits, seed)
        method.fit(split.train.x, split.train.y)
        codes = method.encode(split.query.x), method.encode(split.database.x)
        found[title] = count(split, *codes)
    return found


def count(split, query_codes, database_codes) -> metrics.Counts:
    """Items and hits by distance."""
    return metrics.count_by_distance(
        query_codes, split.query.y, database_codes, split.database.y
    )


def nearest(
    coded: Coded, ranks, seed: int = 0
) -> list[tuple[np.ndarray, list[Hit]]]:
    """A query drawn at random from each class, and items that it finds.

    Among items at equal distance the order is random, too: the first ones of
    a file would be shown for every query.

    Args:
        coded: codes and pictures.
        ranks: places in the ranking to show, from 1.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    y, items = coded.split.query.y, coded.split.database.y
    rows = []
    for c in np.unique(y):
        i = rng.choice(np.flatnonzero(y == c))
        differ = np.bitwise_xor(coded.query[i], coded.database)
        distance = np.bitwise_count(differ).sum(axis=1, dtype=np.int64)
        order = np.lexsort((rng.random(len(distance)), distance))
        hits = [
            Hit(coded.database_images[j], int(distance[j]), items[j] == c)
            for j in order[np.asarray(ranks) - 1]
        ]
        rows.append((coded.query_images[i], hits))
    return rows


def _images(x, shape):
    images = np.clip(x, 0, 255).astype(np.uint8).reshape(-1, *shape)
    return images[..., 0] if shape[-1] == 1 else images
