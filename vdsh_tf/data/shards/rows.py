"""StoredRows: rows of shards that stay on disk, in the place of an array."""

import hashlib
import itertools
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np

from vdsh_tf.data import normalization
from vdsh_tf.data import streams
from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards import hashing
from vdsh_tf.data.shards.catalog import Catalog


class StoredRows:
    """Some rows of shards, [n, d], read when they are asked for.

    A slice, a mask or increasing row numbers choose among them and read
    nothing. Wherever `fit`, `encode` and `datasets.Part` take an array of
    features, they take these.

    Args:
        shards: in the order of the catalog.
        catalog: of these shards, as they are now.
        index: increasing numbers of rows in the catalog; default all that
            are not zero.

    Attributes:
        shape, dtype: as an array's.
        names: None; see `streams`.
        failure: the error that ended the last reading by `tf.data`, which
            shows its own in its place; or None.
    """

    ndim = 2
    names = None

    def __init__(
        self,
        shards: Sequence[formats.Shard],
        catalog: Catalog,
        index: np.ndarray | None = None,
    ):
        self.catalog = catalog
        self.failure: Exception | None = None
        self._shards = shards
        if index is None:
            index = np.flatnonzero(catalog.usable)
        small = np.uint32 if len(catalog) < 2**32 else np.uint64
        self._index = index.astype(small)
        self.shape = (len(index), catalog.layout.width)
        self.dtype = catalog.layout.dtype
        # Where the pieces begin among these rows.
        starts = catalog.piece_starts
        self._bounds = np.searchsorted(self._index, starts.astype(small))
        homes = np.searchsorted(catalog.starts, starts[:-1], "right") - 1
        self._homes = homes

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, chosen) -> "StoredRows":
        index = self._index[chosen]
        if index.ndim != 1 or (index[1:] <= index[:-1]).any():
            raise ValueError(
                "Rows on disk must be chosen by a slice, a mask or increasing "
                "row numbers. Use `take` to read them in another order."
            )
        return StoredRows(self._shards, self.catalog, index)

    def __array__(self, *args, **kwargs):
        raise ValueError(
            f"{self.shape[0]} rows of shards must be read piece by piece, as "
            "`fit` and `encode` do, and not as one array in memory. Use their "
            "`batches` or `take`."
        )

    def pieces(self) -> np.ndarray:
        """Numbers of the pieces that have some of these rows."""
        return np.flatnonzero(np.diff(self._bounds))

    def filled(
        self, pieces: Iterable[int], size: int, arrays: int | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The rows of pieces, in arrays of `size`; the last may have fewer.

        Args:
            pieces: numbers of pieces, in the order of reading.
            size: rows in an array.
            arrays: how many arrays there are, filled in turn: the first pages
                of new memory cost as much as reading. Default new ones.

        Yields:
            Rows [size, d], and their places among these rows.
        """
        size = min(size, max(1, len(self)))
        made: Iterator[tuple] = (self._pair(size) for _ in itertools.count())
        if arrays is not None:
            made = itertools.cycle([self._pair(size) for _ in range(arrays)])
        (x, places), count = next(made), 0
        for at, block in self._read(pieces):
            while len(block):
                part = block[: size - count]
                end = count + len(part)
                x[count:end] = part
                places[count:end] = np.arange(at, at + len(part))
                block, at, count = block[len(part) :], at + len(part), end
                if count == size:
                    yield x, places
                    (x, places), count = next(made), 0
        if count:
            yield x[:count], places[:count]

    def batches(self, size: int) -> Iterator[np.ndarray]:
        """All rows in their order, `size` at a time."""
        for x, _ in self.filled(self.pieces(), size):
            yield x

    def take(self, rows) -> np.ndarray:
        """Reads some rows, in any order."""
        rows = np.asarray(rows)
        streams.check_rows(rows, len(self), "the shards")
        order = np.argsort(rows, kind="stable")
        wanted = rows[order]
        result = self._empty(len(rows))
        homes = np.searchsorted(self._bounds, wanted, "right") - 1
        for at, block in self._read(np.unique(homes)):
            low, high = np.searchsorted(wanted, [at, at + len(block)])
            result[order[low:high]] = block[wanted[low:high] - at]
        return result

    def sample(self) -> np.ndarray:
        """Rows for normalisation: all, if they are few, in their order.

        Of many, those that the pass over the data has kept; where these are
        too few, because most of the data is left out, as many as
        `normalization.sample` takes are drawn and read.
        """
        most = normalization.most_rows(self.shape[1])
        numbers, rows = self.catalog.sampled()
        kept = rows[np.isin(numbers, self._index)]
        if len(kept) == len(self) or 2 * len(kept) > most:
            return kept
        drawn = np.arange(len(self))
        if len(self) > most:
            rng = np.random.default_rng(0)
            drawn = np.sort(rng.choice(len(self), most, replace=False))
        return self.take(drawn)

    def labels(self) -> np.ndarray:
        """Labels of these rows as they were counted: [n] or [n, C]."""
        return self.catalog.labels[self._index]

    def uniform(self, seed: int) -> np.ndarray:
        """A random number per row that follows from its key, or contents."""
        return hashing.uniform(self.catalog.identity[self._index], seed)

    def digest(self) -> bytes:
        """SHA-256 of type, width and the hashes of all rows, in order."""
        total = hashlib.sha256(f"{self.dtype.str} {self.shape}".encode())
        total.update(self.catalog.content[self._index].data)
        return total.digest()

    def joined(self, other: "StoredRows") -> tuple["StoredRows", np.ndarray]:
        """These and other rows of the same shards.

        Returns:
            The rows, in the order of the catalog, and where each one is in
            the list of these, then the others.
        """
        index = np.concatenate([self._index, other._index])
        order = np.argsort(index, kind="stable")
        return StoredRows(self._shards, self.catalog, index[order]), order

    def _pair(self, size):
        return self._empty(size), np.empty(size, np.int64)

    def _empty(self, count):
        return np.empty((count, self.shape[1]), self.dtype)

    def _read(self, pieces):
        """Blocks of chosen rows, each with the place of its first one."""
        looked_at: set[str] = set()
        for piece in pieces:
            shard = self._shards[self._homes[piece]]
            entry = self.catalog.entries[self._homes[piece]]
            first = self.catalog.starts[self._homes[piece]]
            if shard.name not in looked_at:
                _check_unchanged(shard, entry)
                if shard.remote:
                    looked_at.add(shard.name)
            start, stop = self.catalog.piece_starts[piece : piece + 2]
            low, high = self._bounds[piece : piece + 2]
            index = self._index[low:high].astype(np.int64)
            at = start
            for x, *_ in shard.read(start - first, stop - first, labels=False):
                a, b = np.searchsorted(index, [at, at + len(x)])
                if b > a:
                    whole = b - a == len(x)
                    yield low + a, x if whole else x[index[a:b] - at]
                at += len(x)
            if at != stop:
                raise formats.ShardError(
                    f"{shard.name} must have the rows that it had when it was "
                    f"first read. Received: {at - start} rows instead of "
                    f"{stop - start}."
                )


def _check_unchanged(shard, entry):
    with formats.reading(shard.name, "a file that can be read"):
        stamp = shard.stamp()
    if stamp != entry.stamp:
        raise formats.ShardError(
            f"{shard.name} must not change while its rows are used, or labels "
            "and classes that were counted no longer hold; its size or time "
            "is another now. Bring the old file back and resume, or begin "
            "anew."
        )
