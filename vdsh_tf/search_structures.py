"""What `HammingIndex` puts beside its codes to look at fewer of them.

Each structure wraps one faiss index over row numbers and says how far its
answers can be trusted: `search` returns a mask of the queries whose answer is
final, the index scans for the rest.
"""

import math

import numpy as np


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


def range_search(index, codes: np.ndarray, radius: int, named):
    """All within a radius: limits, distances and ids.

    As faiss's own `range_search`, without its copies of what are often
    millions of hits; `named` turns row numbers into ids.
    """
    faiss = import_faiss()
    count = len(codes)
    found = faiss.RangeSearchResult(count)
    # faiss means "less than".
    index.range_search_c(count, faiss.swig_ptr(codes), radius + 1, found)
    limits = faiss.rev_swig_ptr(found.lims, count + 1).astype(np.int64)
    total = int(limits[-1])
    if not total:
        return limits, np.zeros(0, np.int32), np.zeros(0, np.int64)
    distances = faiss.rev_swig_ptr(found.distances, total).astype(np.int32)
    rows = faiss.rev_swig_ptr(found.labels, total)
    return limits, distances, named(rows)


class _Structure:
    """A faiss index that numbers what it is given from 0."""

    capacity = math.inf

    def __init__(self, codes: np.ndarray, bits: int):
        self._index = self._make(codes, bits)
        self._index.add(codes)

    def add(self, codes):
        self._index.add(codes)

    def radius_search(self, codes, radius, named):
        """As `range_search`, or None if only a scan is complete."""
        return None

    def to_bytes(self) -> np.ndarray:
        return import_faiss().serialize_index_binary(self._index)


class Hash(_Structure):
    """Buckets by the first 16 bits; looks into those a few flips away.

    Codes at most r apart differ in at most r of the first bits, so r flips
    find all of them: nothing is missed, and a k-th neighbour within the flips
    proves that the k nearest are the true ones.
    """

    _PREFIX = 16
    _SEARCH_FLIPS = 2
    # Buckets to visit: 137 for 2 flips, 697 for 3, 2,517 for 4.
    _MOST_FLIPS = 3

    def _make(self, codes, bits):
        faiss = import_faiss()
        prefix = min(self._PREFIX, bits)
        return faiss.IndexBinaryHash(8 * codes.shape[1], prefix)

    def search(self, codes, k):
        self._index.nflip = min(self._SEARCH_FLIPS, self._index.b)
        distances, rows = self._index.search(codes, k)
        final = (rows[:, -1] >= 0) & (distances[:, -1] <= self._SEARCH_FLIPS)
        return distances, rows, final

    def radius_search(self, codes, radius, named):
        if radius > self._MOST_FLIPS:
            return None
        self._index.nflip = min(radius, self._index.b)
        return range_search(self._index, codes, radius, named)


class InvertedFile(_Structure):
    """Cells around centres found by k-means; looks into the nearest ones."""

    _PROBES = 8
    _MOST_CELLS = 4096
    # With fewer codes a cell, faiss warns that centres are ill-determined.
    _CODES_PER_CELL = 39

    def __init__(self, codes, bits):
        super().__init__(codes, bits)
        self._set_capacity(len(codes))

    def _set_capacity(self, trained_on):
        # Twice as many codes deserve more cells.
        self.capacity = 2 * trained_on

    def _make(self, codes, bits):
        faiss = import_faiss()
        width = 8 * codes.shape[1]
        cells = min(
            math.isqrt(len(codes)),
            len(codes) // self._CODES_PER_CELL,
            self._MOST_CELLS,
        )
        centres = faiss.IndexBinaryFlat(width)
        index = faiss.IndexBinaryIVF(centres, width, max(1, cells))
        index.cp.niter = 10
        index.cp.max_points_per_centroid = 64
        index.train(codes)
        return index

    def search(self, codes, k):
        self._index.nprobe = min(self._PROBES, self._index.nlist)
        distances, rows = self._index.search(codes, k)
        return distances, rows, rows[:, -1] >= 0


class Graph(_Structure):
    """A navigable small-world graph of codes."""

    _DEGREE = 32
    _LEAST_EFFORT = 64

    def _make(self, codes, bits):
        faiss = import_faiss()
        return faiss.IndexBinaryHNSW(8 * codes.shape[1], self._DEGREE)

    def search(self, codes, k):
        self._index.hnsw.efSearch = max(self._LEAST_EFFORT, 2 * k)
        distances, rows = self._index.search(codes, k)
        return distances, rows, rows[:, -1] >= 0


KINDS = {"hash": Hash, "ivf": InvertedFile, "hnsw": Graph}


def from_bytes(kind: str, data: np.ndarray, path: str, count: int):
    """The structure that `to_bytes` gave, or an error naming its file."""
    faiss = import_faiss()
    try:
        index = faiss.deserialize_index_binary(data)
    except RuntimeError as error:
        raise ValueError(
            f"{path} holds a search structure that this faiss "
            f"({faiss.__version__}) cannot read: it is of another version. "
            f"Build the index anew. Cause: {error}"
        ) from error
    if index.ntotal != count:
        raise ValueError(
            f"{path} is damaged: its structure holds {index.ntotal} codes of "
            f"{count}. Build the index anew."
        )
    structure = KINDS[kind].__new__(KINDS[kind])
    structure._index = index
    if kind == "ivf":
        structure._set_capacity(count)
    return structure
