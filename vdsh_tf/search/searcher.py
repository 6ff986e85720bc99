"""Searcher: raw rows -> the items near them.

```python
searcher = Searcher(model.encode, index)
for distances, ids in searcher.search(queries, k=10):
    ...
```
"""

from collections.abc import Callable
from collections.abc import Iterator
from typing import NamedTuple
from typing import Protocol

import numpy as np

from vdsh_tf import config
from vdsh_tf.data import streams
from vdsh_tf.search.hamming import Ball
from vdsh_tf.search.hamming import Neighbors

Encode = Callable[[np.ndarray], np.ndarray]
Hits = list[tuple[np.ndarray, np.ndarray]]


class Index(Protocol):
    """What a searcher asks of an index, such as `HammingIndex`."""

    def search(self, codes: np.ndarray, k: int = ...) -> Neighbors: ...

    def radius_search(self, codes: np.ndarray, radius: int = ...) -> Ball: ...


class Found(NamedTuple):
    """A batch of queries and what is near them.

    Attributes:
        rows: [n, d], the queries.
        hits: for each query the distances [k] and ids [k], nearest first.
    """

    rows: np.ndarray
    hits: Hits


class Searcher:
    """Encodes queries and searches an index for them, batch by batch.

    Args:
        encode: raw rows [n, d] -> packed codes, of the encoder that made the
            index: a `Hasher`, `VDSH.encode` or `serving.Client.encode`.
        index: a `HammingIndex` or a `MilvusIndex`.
        batch_size: queries that are encoded and searched together.
    """

    def __init__(self, encode: Encode, index: Index, batch_size: int = 256):
        config.require(
            config.is_count(batch_size),
            "batch_size",
            batch_size,
            "an integer >= 1",
            "or no query is searched",
        )
        self.encode = encode
        self.index = index
        self.batch_size = batch_size

    def search(self, x, k: int = 10, radius: int | None = None) -> Hits:
        """Hits of all rows of an array.

        Args:
            x: [n, d], raw rows.
            k: number of hits for each row.
            radius: all items within so many bits, instead of k.
        """
        rows = streams.ArrayRows(np.asarray(x))
        found = self.stream(rows, "the queries", k, radius)
        return [hit for batch in found for hit in batch.hits]

    def stream(
        self, rows, source: str, k: int = 10, radius: int | None = None
    ) -> Iterator[Found]:
        """Hits batch by batch, in constant memory.

        Args:
            rows: a source of `data.streams`.
            source: its name, for errors.
            k, radius: as for `search`.
        """
        batches = rows.batches(self.batch_size)
        for batch, codes in encoded(self.encode, batches, source):
            yield Found(batch, self._hits(codes, k, radius))

    def _hits(self, codes, k, radius):
        if radius is None:
            found = self.index.search(codes, k)
            return list(zip(found.distances, found.ids, strict=True))
        ball = self.index.radius_search(codes, radius)
        return [ball.sorted_hits(i) for i in range(len(codes))]


def encoded(
    encode: Encode, batches, source: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of rows with their codes; an error says which rows are bad.

    Args:
        encode: raw rows -> packed codes.
        batches: arrays [n, d], in the order of their rows in the source.
        source: name of the source.
    """
    start = 0
    for rows in batches:
        try:
            codes = encode(rows)
        except ValueError as error:
            last = start + len(rows) - 1
            raise ValueError(
                f"Rows {start} to {last} of {source} cannot be encoded (row "
                f"numbers below count from {start}). {error}"
            ) from error
        yield rows, codes
        start += len(rows)
