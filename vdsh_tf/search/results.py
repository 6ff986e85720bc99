"""What a search returns, whatever the index."""

from typing import NamedTuple

import numpy as np


class Neighbors(NamedTuple):
    """The k nearest of each query, nearest first.

    Attributes:
        distances: [num_queries, k] int32, in bits.
        ids: [num_queries, k] int64.
    """

    distances: np.ndarray
    ids: np.ndarray


class Ball(NamedTuple):
    """All items within a radius of each query, in no particular order.

    Those of query i are `distances[limits[i]:limits[i + 1]]` and so on.

    Attributes:
        limits: [num_queries + 1] int64.
        distances: [total] int32, in bits.
        ids: [total] int64.
    """

    limits: np.ndarray
    distances: np.ndarray
    ids: np.ndarray

    def sorted_hits(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and ids of one query, nearest first, then by id."""
        part = slice(self.limits[query], self.limits[query + 1])
        distances, ids = self.distances[part], self.ids[part]
        order = np.lexsort((ids, distances))
        return distances[order], ids[order]
