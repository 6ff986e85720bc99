"""Search among some items of an index only: those that a filter allows.

Exact, whatever the kind of the index: the codes of the allowed items are
scanned. A Milvus collection is asked for them by their ids.
"""

import numpy as np

from vdsh_tf.search import checks
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.search.mapped import MappedIndex
from vdsh_tf.search.milvus import MilvusIndex
from vdsh_tf.search.results import Ball
from vdsh_tf.search.results import Neighbors

AnyIndex = HammingIndex | MappedIndex | MilvusIndex
# Ids in one question to Milvus.
_PART = 4096


def known(index: AnyIndex, ids) -> np.ndarray:
    """[n] bool, which ids are in the index."""
    ids = checks.check_ids(ids)
    if isinstance(index, MilvusIndex):
        found = index._known(ids, index._where())
        return np.array([int(i) in found for i in ids], bool)
    return index.rows_of(ids) >= 0


def codes_of(index: AnyIndex, ids) -> np.ndarray:
    """[n, ceil(bits/8)] uint8, the codes of items; all must be there."""
    if not isinstance(index, MilvusIndex):
        return index.codes_of(ids)
    ids = checks.check_ids(ids)
    found = {}
    for start in range(0, len(ids), _PART):
        part = ids[start : start + _PART].tolist()
        for row in index._query(index._where(f"id in {part}"), ["id", "code"]):
            found[row["id"]] = row["code"][0]
    checks.raise_unknown(np.array([i for i in ids.tolist() if i not in found]))
    width = (index.bits + 7) // 8
    joined = b"".join(found[i] for i in ids.tolist())
    return np.frombuffer(joined, np.uint8).reshape(len(ids), width)


def restrict(index: AnyIndex, ids) -> "HammingIndex | MilvusPart":
    """An index of some items only, as they are now.

    Args:
        index: where they are.
        ids: [n] distinct; those that are not there do not matter.
    """
    ids = checks.check_ids(ids)
    if isinstance(index, MilvusIndex):
        return MilvusPart(index, ids)
    ids = ids[known(index, ids)]
    part = HammingIndex(index.bits)
    if len(ids):
        part.add(index.codes_of(ids), ids)
    return part


class MilvusPart:
    """Items of a Milvus collection, searched with `id in [...]`.

    Args:
        index: the collection.
        ids: [n] distinct ids that may be found.
    """

    def __init__(self, index: MilvusIndex, ids: np.ndarray):
        self._index = index
        self._ids = ids[known(index, ids)]

    def __len__(self) -> int:
        return len(self._ids)

    def search(self, codes: np.ndarray, k: int = 10) -> Neighbors:
        """As that of the index."""
        checks.check_codes(codes, self._index.bits, "queries")
        checks.check_k(k, len(self))
        found = [
            sorted(hits, key=lambda hit: hit[0])[:k]
            for hits in self._hits(codes, int(k))
        ]
        table = np.array(found, np.int64).reshape(len(codes), k, 2)
        return Neighbors(table[..., 0].astype(np.int32), table[..., 1])

    def radius_search(self, codes: np.ndarray, radius: int = 2) -> Ball:
        """As that of the index."""
        checks.check_codes(codes, self._index.bits, "queries")
        checks.check_radius(radius)
        # Milvus means "less than".
        bound = min(int(radius), self._index.bits) + 1
        found = self._hits(codes, _PART, bound)
        limits = np.cumsum([0, *map(len, found)], dtype=np.int64)
        flat = [hit for hits in found for hit in hits]
        table = np.array(flat, np.int64).reshape(-1, 2)
        return Ball(limits, table[:, 0].astype(np.int32), table[:, 1])

    def _hits(self, codes, limit, bound=None):
        """For each code (distance, id), by parts of the ids."""
        found: list[list[tuple[int, int]]] = [[] for _ in codes]
        for start in range(0, len(self._ids), _PART):
            part = self._ids[start : start + _PART].tolist()
            answers = self._index._hits(
                codes, min(limit, len(part)), bound, f"id in {part}"
            )
            for hits, answer in zip(found, answers, strict=True):
                hits += [(int(h["distance"]), h["id"]) for h in answer]
        return found
