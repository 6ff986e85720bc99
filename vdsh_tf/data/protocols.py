"""Protocols: which rows are trained on, searched with and searched in.

paper            All rows but the queries are trained on, and are searched in.
train_per_class  Some rows of each class are trained on; those searched in are
                 the others, which the network has never seen.
unseen_classes   Some classes have no label at training time; queries and the
                 rows searched in are theirs.

Each has its way to hold out what a setting is chosen by (`validation_split`):
queries of the same kind, against rows that were not trained on either.
"""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Part:
    """Features [n, d] as stored (raw) with labels [n] or [n, C].

    Features are an array, or `shards.rows.StoredRows`, which stay on disk.
    """

    x: Any
    y: np.ndarray

    def __len__(self):
        return len(self.x)

    def take(self, index) -> "Part":
        return Part(self.x[index], self.y[index])

    def joined(self, other: "Part") -> "Part":
        """The rows of both."""
        y = np.concatenate([self.y, other.y])
        if isinstance(self.x, np.ndarray):
            return Part(np.concatenate([self.x, other.x]), y)
        x, order = self.x.joined(other.x)
        return Part(x, y[order])

    def of_classes(self, classes) -> "Part":
        """The rows of some classes."""
        return self.take(np.isin(self.y, classes))


def draw_per_class(part: Part, count: int, rng) -> tuple[Part, Part]:
    """Draws `count` items of every class; returns them and the rest."""
    if count < 0:
        raise ValueError(
            f"The number drawn from a class must be >= 0. Received: {count}."
        )
    drawn = np.zeros(len(part), bool)
    multi = part.y.ndim == 2
    classes = range(part.y.shape[1]) if multi else np.unique(part.y)
    for c in classes:
        member = part.y[:, c] > 0 if multi else part.y == c
        free = np.flatnonzero(member & ~drawn)
        if count and len(free) <= count:
            raise ValueError(
                f"Class {c} must have more than the {count} items asked for, "
                "or none is left to train on and to find. Received: "
                f"{len(free)} items. Ask for fewer per class."
            )
        drawn[rng.choice(free, count, replace=False)] = True
    return part.take(drawn), part.take(~drawn)


def draw_by_hash(
    part: Part, query_share: float, validation_share: float, seed: int
) -> tuple[Part, Part, Part]:
    """Draws rows of StoredRows by a hash of their key, or of their contents.

    A row is drawn or not whatever rows there are beside it: data that is
    added changes the part of no other row. Equal rows are drawn together.

    Args:
        part: all rows.
        query_share, validation_share: shares of the rows.
        seed: other seeds draw others.

    Returns:
        Queries, validation rows, and the rest.
    """
    if min(query_share, validation_share) < 0 or (
        query_share + validation_share >= 1
    ):
        raise ValueError(
            "`query_share` and `validation_share` must be >= 0 and leave rows "
            f"to train on. Received: {query_share} and {validation_share}."
        )
    place = part.x.uniform(seed)
    held = query_share + validation_share
    query = part.take(place < query_share)
    validation = part.take((place >= query_share) & (place < held))
    rest = part.take(place >= held)
    for share, drawn in ((query_share, query), (validation_share, validation)):
        if (share and not len(drawn)) or not len(rest):
            raise ValueError(
                f"A share of {share} must hold at least one of the "
                f"{len(part)} rows, and leave one. Received: {len(drawn)} "
                f"drawn, {len(rest)} left. Give another share."
            )
    return query, validation, rest


def parse_classes(text: str, y: np.ndarray, seed: int) -> tuple[int, ...]:
    """Classes that are not trained on, from what a user writes.

    Args:
        text: numbers with commas, such as "7,8,9", or a share of the classes
            such as "0.3", drawn by the seed.
        y: labels [n].
        seed: of the draw.
    """
    if y.ndim != 1:
        raise ValueError(
            "`unseen_classes` needs one label per row; a row of several "
            f"labels may belong to both sides. Received: labels {y.shape}. "
            "Use `train_per_class`."
        )
    present = np.unique(y)
    try:
        if "." in text:
            share = float(text)
            count = round(share * len(present)) if 0 < share < 1 else 0
            rng = np.random.default_rng(seed)
            chosen = rng.choice(present, count, replace=False)
        else:
            chosen = np.unique([int(part) for part in text.split(",")])
    except ValueError:
        chosen = np.array([], int)
    if not len(chosen) or not np.isin(chosen, present).all():
        raise ValueError(
            "`unseen_classes` must be classes of the data, such as 7,8,9, or "
            f"a share of them, such as 0.3. Received: {text!r}; the classes "
            f"are {', '.join(map(str, present))}."
        )
    if len(present) - len(chosen) < 2:
        raise ValueError(
            "At least two classes must be left to train on, or there is "
            f"nothing to tell apart. Received: unseen_classes={text!r} of "
            f"{len(present)} classes."
        )
    return tuple(map(int, np.sort(chosen)))


def hold_out_classes(train: Part, count: int, seed: int) -> np.ndarray:
    """Trained classes that take the part of unseen ones in validation.

    Args:
        train: what is trained on, labels [n].
        count: how many; two are left at least.
        seed: of the draw.
    """
    present = np.unique(train.y)
    rng = np.random.default_rng(seed)
    count = min(count, len(present) - 2)
    if count < 1:
        raise ValueError(
            "There must be three trained classes or more to choose by some "
            f"of them. Received: {len(present)}. Leave out fewer classes."
        )
    return np.sort(rng.choice(present, count, replace=False))


def renumbered(part: Part, classes: np.ndarray) -> Part:
    """Labels as places in the sorted `classes`: 0, 1, 2 without holes."""
    return Part(part.x, np.searchsorted(classes, part.y))
