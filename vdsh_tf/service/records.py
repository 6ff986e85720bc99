"""What requests ask of an engine, and what they get."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vdsh_tf.service import filters
from vdsh_tf.service.store import Item


class Query(NamedTuple):
    """A question of one request.

    Attributes:
        rows: [n, d] float32, checked; or None.
        ids: [n] items whose neighbours are asked for, instead of rows.
        k: hits of each row at most.
        radius: hits are within so many bits; None for any distance.
        where: a filter as text, and parsed; None for all items.
        rerank: the first so many by bits are put in order by embedding; 0
            leaves the order by bits.
        payloads: whether to look payloads up.
    """

    rows: np.ndarray | None
    ids: np.ndarray | None = None
    k: int = 10
    radius: int | None = None
    where: tuple[str, filters.Node] | None = None
    rerank: int = 0
    payloads: bool = True

    def __len__(self) -> int:
        asked = self.rows if self.rows is not None else self.ids
        return 0 if asked is None else len(asked)


class Hits(NamedTuple):
    """What is near one row, nearest first.

    Attributes:
        distances: [m] int, in bits.
        ids: [m] int64.
        total: items within the radius, of which the hits are the first.
        similarities: [m] cosines of embeddings, where they gave the order.
    """

    distances: np.ndarray
    ids: np.ndarray
    total: int | None = None
    similarities: np.ndarray | None = None


class Answer(NamedTuple):
    """What one query gets.

    Attributes:
        codes: [n, bytes] uint8, of its rows.
        embeddings: [n, K] float32.
        hits: one for each row.
        payloads: JSON objects as text, by id.
    """

    codes: np.ndarray
    embeddings: np.ndarray | None
    hits: list[Hits]
    payloads: dict[int, str]


class Change(NamedTuple):
    """Items to add, all or none; or the id of one to remove."""

    add: Sequence[Item] = ()
    remove: int | None = None


class TakenError(ValueError):
    """An id that is taken."""


class UnknownError(ValueError):
    """An id that is not there."""


class ReadOnlyError(ValueError):
    """A change of an index that does not change."""
