"""What `HammingIndex` puts beside its codes to look at fewer of them.

Trained codes collapse: 69,000 MNIST images have 85 distinct codes. So
each structure searches distinct codes, by one faiss index, and hands out the
items of each. It says how far its hits can be trusted: `search` returns a
mask of the queries whose hits are final, the index scans for the rest.
"""

import abc
import math

import numpy as np

from vdsh_tf import codes as codes_lib


def import_faiss():
    """faiss, or an error that says how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            "Search needs faiss, which is not installed. Run "
            "`pip install 'vdsh_tf[search]'`, or `pip install faiss-cpu`."
        ) from error
    return faiss


def range_search(index, codes: np.ndarray, radius: int):
    """All rows within a radius: limits, distances and rows.

    As faiss's own `range_search`, without its copies of what are often
    millions of hits: distances and rows are views that live as long as the
    first result does.
    """
    faiss = import_faiss()
    count = len(codes)
    found = faiss.RangeSearchResult(count)
    # faiss means "less than".
    index.range_search_c(count, faiss.swig_ptr(codes), radius + 1, found)
    limits = faiss.rev_swig_ptr(found.lims, count + 1).astype(np.int64)
    total = int(limits[-1])
    if not total:
        return found, limits, np.zeros(0, np.float32), np.zeros(0, np.int64)
    distances = faiss.rev_swig_ptr(found.distances, total)
    return found, limits, distances, faiss.rev_swig_ptr(found.labels, total)


class Groups:
    """Rows that share a code.

    Attributes:
        members: [n] int64, all rows, those of a group side by side.
        starts: [num_groups] int64, where each group begins in `members`.
    """

    def __init__(self, members: np.ndarray, starts: np.ndarray):
        self.members = members
        self.starts = starts
        self._sizes = np.diff(starts, append=len(members))

    @classmethod
    def of(cls, codes: np.ndarray) -> "Groups":
        """Groups equal codes."""
        words = codes_lib.as_words(codes)
        order = np.lexsort(words.T)
        words = words[order]
        first = np.ones(len(codes), bool)
        first[1:] = (words[1:] != words[:-1]).any(axis=1)
        return cls(order.astype(np.int64), np.flatnonzero(first))

    def codes(self, codes: np.ndarray) -> np.ndarray:
        """The code of each group."""
        return codes[self.members[self.starts]]

    def with_singles(self, count: int) -> "Groups":
        """The same with `count` more rows, each a group of its own."""
        n = len(self.members)
        more = np.arange(n, n + count)
        return Groups(
            np.concatenate([self.members, more]),
            np.concatenate([self.starts, more]),
        )

    def sizes(self, groups: np.ndarray) -> np.ndarray:
        """Number of rows in each group; 0 for -1, faiss's "none"."""
        return np.where(groups < 0, 0, self._sizes[groups])

    def rows(self, groups: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """The first `counts` rows of each group, one group after another."""
        ends = np.cumsum(counts)
        shift = np.repeat(self.starts[groups] - (ends - counts), counts)
        shift += np.arange(len(shift))
        return self.members[shift]


class Structure(abc.ABC):
    """A faiss index of distinct codes, and the rows of each."""

    # Distance up to which the nearest codes are certain.
    _reach: float

    def __init__(self, codes: np.ndarray, bits: int):
        groups = Groups.of(codes)
        distinct = groups.codes(codes)
        index = self._make(distinct, bits)
        index.add(distinct)
        self._hold(index, groups)

    @classmethod
    def of(cls, index, groups: Groups) -> "Structure":
        """From a faiss index of distinct codes, and the rows of each."""
        structure = cls.__new__(cls)
        structure._hold(index, groups)
        return structure

    def _hold(self, index, groups):
        self.index = index
        self.groups = groups
        # Later codes are not grouped, so twice as many deserve a new one.
        self.capacity = 2 * len(groups.members)

    def add(self, codes):
        self.index.add(codes)
        self.groups = self.groups.with_singles(len(codes))

    def search(self, codes, k):
        """[n, k] distances and rows, [n] whether they are final."""
        distances, groups = self._nearest(codes, min(k, self.index.ntotal))
        sizes = self.groups.sizes(groups)
        before = np.cumsum(sizes, axis=1) - sizes
        taken = np.clip(k - before, 0, sizes)
        last = np.where(taken > 0, distances, 0).max(axis=1)
        final = (taken.sum(axis=1) == k) & (last <= self._reach)
        shape = (len(codes), k)
        all_distances = np.zeros(shape, np.int32)
        rows = np.zeros(shape, np.int64)
        taken = taken[final].ravel()
        rows[final] = self.groups.rows(groups[final].ravel(), taken).reshape(
            -1, k
        )
        all_distances[final] = np.repeat(
            distances[final].ravel(), taken
        ).reshape(-1, k)
        return all_distances, rows, final

    def radius_search(self, codes, radius):
        """As `range_search`, or None if only a scan is complete."""
        return None

    @abc.abstractmethod
    def _make(self, codes, bits):
        """An empty faiss index for codes such as these."""

    @abc.abstractmethod
    def _nearest(self, codes, k):
        """[n, k] distances and groups, nearest first; -1 for none."""


class Hash(Structure):
    """Buckets by the first 16 bits; looks into those a few flips away.

    Codes at most r apart differ in at most r of the first bits, so r flips
    find all of them: nothing is missed, and a k-th neighbour within the flips
    proves that the k nearest are the true ones.
    """

    _PREFIX = 16
    # As far as `search` flips bits.
    _reach = 2
    # Buckets to visit: 137 for 2 flips, 697 for 3, 2,517 for 4.
    _MOST_FLIPS = 3

    def _make(self, codes, bits):
        faiss = import_faiss()
        prefix = min(self._PREFIX, bits)
        return faiss.IndexBinaryHash(8 * codes.shape[1], prefix)

    def _nearest(self, codes, k):
        self.index.nflip = min(self._reach, self.index.b)
        return self.index.search(codes, k)

    def radius_search(self, codes, radius):
        if radius > self._MOST_FLIPS:
            return None
        self.index.nflip = min(radius, self.index.b)
        kept, limits, distances, groups = range_search(
            self.index, codes, radius
        )
        sizes = self.groups.sizes(groups)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        rows = self.groups.rows(groups, sizes)
        return kept, ends[limits], np.repeat(distances, sizes), rows


class InvertedFile(Structure):
    """Cells around centres found by k-means; looks into the nearest ones."""

    _reach = math.inf
    _PROBES = 8
    MOST_CELLS = 4096
    # With fewer codes per cell, faiss warns that centres are ill-determined.
    _CODES_PER_CELL = 39

    def _make(self, codes, bits):
        faiss = import_faiss()
        width = 8 * codes.shape[1]
        cells = min(
            math.isqrt(len(codes)),
            len(codes) // self._CODES_PER_CELL,
            self.MOST_CELLS,
        )
        centres = faiss.IndexBinaryFlat(width)
        index = faiss.IndexBinaryIVF(centres, width, max(1, cells))
        index.cp.niter = 10
        index.cp.max_points_per_centroid = 64
        index.train(codes)
        return index

    def _nearest(self, codes, k):
        self.index.nprobe = min(self._PROBES, self.index.nlist)
        return self.index.search(codes, k)


class Graph(Structure):
    """A navigable small-world graph of codes."""

    _reach = math.inf
    DEGREE = 32
    _LEAST_EFFORT = 64

    def _make(self, codes, bits):
        faiss = import_faiss()
        return faiss.IndexBinaryHNSW(8 * codes.shape[1], self.DEGREE)

    def _nearest(self, codes, k):
        self.index.hnsw.efSearch = max(self._LEAST_EFFORT, 2 * k)
        return self.index.search(codes, k)


KINDS: dict[str, type[Structure]] = {
    "hash": Hash,
    "ivf": InvertedFile,
    "hnsw": Graph,
}
