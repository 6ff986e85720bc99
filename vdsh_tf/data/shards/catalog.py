"""Catalog: all that is known of shards after one pass over them.

The pass checks every row and keeps its label, 64 bits that stand for its
contents, those of its key if it has one, and a sample for normalisation: 10 to
20 bytes per row beside a sample of 2^24 numbers at most. A shard counts as
unchanged while its size and time are.
"""

import dataclasses
import functools

import numpy as np

from vdsh_tf.data.shards import formats


@dataclasses.dataclass(frozen=True)
class Entry:
    """What the pass has found in one shard.

    Attributes:
        name, stamp: of the shard when it was read.
        pieces: rows in each piece.
        labels: [n] integers or [n, C] multi-hot, of the smallest type.
        content: [n] uint64, hashes of the rows.
        key: [n] uint64, hashes of their keys; empty without keys.
        zeros: places of rows that are all zero, which have no code.
    """

    name: str
    stamp: str
    pieces: tuple[int, ...]
    labels: np.ndarray
    content: np.ndarray
    key: np.ndarray
    zeros: np.ndarray

    def __len__(self):
        return len(self.content)


@dataclasses.dataclass(frozen=True)
class Sample:
    """Rows drawn from all shards, with equal chances.

    Each row has a random number that follows from its contents and place;
    those with the smallest are kept. So samples of more shards come from
    samples of fewer.

    Attributes:
        order: [k] uint64, the random numbers.
        shard: [k], names of the shards.
        place: [k], rows in their shards.
        x: [k, d].
    """

    order: np.ndarray
    shard: np.ndarray
    place: np.ndarray
    x: np.ndarray

    def smallest(self, count: int) -> "Sample":
        """The rows of the smallest numbers."""
        if len(self.order) <= count:
            return self
        chosen = np.argpartition(self.order, count)[:count]
        return Sample(*(array[chosen] for array in self._arrays()))

    def joined(self, other: "Sample") -> "Sample":
        """Both together."""
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        return Sample(*(np.concatenate(pair) for pair in pairs))

    def _arrays(self):
        return self.order, self.shard, self.place, self.x


@dataclasses.dataclass(frozen=True)
class Catalog:
    """All shards as one long list of rows, in the order of their names.

    Attributes:
        layout: that of every shard, without its pieces.
        entries: one per shard.
        sample: of all rows.
    """

    layout: formats.Layout
    entries: tuple[Entry, ...]
    sample: Sample

    def __len__(self):
        return int(self.starts[-1])

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """[shards + 1], numbers of their first rows."""
        return np.cumsum([0, *map(len, self.entries)])

    @functools.cached_property
    def piece_starts(self) -> np.ndarray:
        """[pieces + 1], likewise."""
        return np.cumsum([0, *(p for e in self.entries for p in e.pieces)])

    # Not kept: these are made of all rows, and asked for once or twice.
    @property
    def labels(self) -> np.ndarray:
        """[n] int64 or [n, C] float32."""
        dtype = np.float32 if self.layout.columns else np.int64
        return np.concatenate([e.labels for e in self.entries], dtype=dtype)

    @property
    def content(self) -> np.ndarray:
        """[n] uint64, hashes of the rows."""
        return np.concatenate([e.content for e in self.entries])

    @property
    def identity(self) -> np.ndarray:
        """[n] uint64, what rows are held out by: hashes of keys, or else of
        contents.
        """
        if any(len(e.key) for e in self.entries):
            return np.concatenate([e.key for e in self.entries])
        return self.content

    @property
    def usable(self) -> np.ndarray:
        """[n] bool, which rows are not all zero."""
        result = np.ones(len(self), bool)
        for start, entry in zip(self.starts[:-1], self.entries, strict=True):
            result[start + entry.zeros] = False
        return result

    def sampled(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the sampled rows, in order, and the rows."""
        names = [entry.name for entry in self.entries]
        at = dict(zip(names, self.starts[:-1], strict=True))
        first = np.array([at[str(name)] for name in self.sample.shard], int)
        numbers = first + self.sample.place
        order = np.argsort(numbers)
        return numbers[order], self.sample.x[order]
