"""HammingIndex: the nearest codes, or all within a radius, on one machine.

```python
index = HammingIndex(bits=64, encoder=model.encoder)
index.add(model.encode(database))
distances, ids = index.search(model.encode(queries), k=10)
index.save("codes.index")
```

The searching is faiss's; it is imported when the first index is made.
"""

import os

import numpy as np

from vdsh_tf import config
from vdsh_tf import files
from vdsh_tf.search import archives
from vdsh_tf.search import checks
from vdsh_tf.search import index_files
from vdsh_tf.search import map_files
from vdsh_tf.search import mapped
from vdsh_tf.search import restoring
from vdsh_tf.search import structures
from vdsh_tf.search.results import Ball as Ball
from vdsh_tf.search.results import Neighbors as Neighbors

KINDS = index_files.KINDS
_ROWS = 1 << 16
# Seconds to wait while another program saves.
_PATIENCE = 60


class HammingIndex:
    """Searches packed codes by Hamming distance.

    Every kind keeps the codes as they are and can scan all of them; the
    others add a structure beside, which costs memory and building time:

    - flat: exact, scans everything.
    - hash: exact. Fast for radii up to 3, and for the k nearest when they are
      within 2 bits, as for trained codes; scans otherwise. Takes 8 bytes per
      item, and each distinct code again with 8 to 20 bytes.
    - ivf: `search` is approximate, it looks into 8 of about sqrt(n) cells;
      `radius_search` is exact and scans. Takes 8 bytes per item, each distinct
      code again with 8 bytes, and seconds to train.
    - hnsw: `search` is approximate, it walks a graph; `radius_search` is exact
      and scans. Takes 8 bytes per item, and each distinct code again with 270
      bytes.

    Items at equal distance come in no particular order, and which of them
    make the last of k places is left open. A structure is built at the first
    search or save, follows `add`, and is built anew after `remove`: remove in
    batches. What takes long to build, the cells of ivf and the graph of hnsw,
    is in the file.

    Args:
        bits: code length K; any, also not a multiple of 8.
        kind: "flat", "hash", "ivf" or "hnsw".
        encoder: what makes the codes (a `HashEncoder`, a `VDSH`, or a
            fingerprint); saved along, to refuse another encoder's queries.
    """

    def __init__(self, bits: int, kind: str = "flat", encoder=None):
        checks.check_size(bits)
        config.require(
            kind in KINDS,
            "kind",
            kind,
            f"one of {', '.join(KINDS)}",
            "the ways to search",
        )
        faiss = structures.import_faiss()
        self.bits = bits
        self.kind = kind
        self.fingerprint = checks.fingerprint_of(encoder)
        self.path: str | None = None
        # The file that was loaded or saved, and its digest.
        self._file: tuple[str, bytes] | None = None
        self._codes = faiss.IndexBinaryFlat(8 * ((bits + 7) // 8))
        self._set_ids(np.zeros(0, np.int64))
        self._structure = None
        # Arrays to restore it from, until it is needed.
        self._saved: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> np.ndarray:
        """[n] int64, in the order of adding."""
        return self._ids.copy()

    def add(self, codes: np.ndarray, ids=None) -> None:
        """Adds codes; nothing is added when anything is wrong.

        Args:
            codes: [n, ceil(bits/8)] uint8, packed.
            ids: [n] integers that are not in the index yet; default: one more
                than the largest id, and so on (from 0).
        """
        checks.check_codes(codes, self.bits)
        ids = self._new_ids(ids, len(codes))
        if not len(codes):
            return
        codes = np.ascontiguousarray(codes)
        if self._saved:
            self._built()
        self._codes.add(codes)
        self._set_ids(np.concatenate([self._ids, ids]))
        if self._structure is not None:
            if len(self) > self._structure.capacity:
                self._structure = None
            else:
                self._structure.add(codes)

    def add_missing(self, codes: np.ndarray, ids) -> int:
        """Adds the codes whose ids are not there yet; returns their number.

        An id that is there with another code is an error; nothing is added.
        """
        checks.check_codes(codes, self.bits)
        ids = checks.check_ids(ids, len(codes))
        rows = np.flatnonzero(np.isin(self._ids, ids))
        order = np.argsort(ids)
        there = order[np.searchsorted(ids, self._ids[rows], sorter=order)]
        other = (self._view()[rows] != codes[there]).any(axis=1)
        if other.any():
            checks.raise_other_code(ids[there][other][0])
        left = np.ones(len(ids), bool)
        left[there] = False
        self.add(codes[left], ids[left])
        return int(left.sum())

    def search(self, codes: np.ndarray, k: int = 10) -> Neighbors:
        """The k nearest items of each query code."""
        checks.check_codes(codes, self.bits, "queries")
        checks.check_k(k, len(self))
        codes = np.ascontiguousarray(codes)
        if self.kind == "flat":
            distances, rows = self._codes.search(codes, int(k))
            return Neighbors(distances, self._named(rows))
        distances, rows, final = self._built().search(codes, int(k))
        rest = np.flatnonzero(~final)
        if len(rest):
            found = self._codes.search(codes[rest], int(k))
            distances[rest], rows[rest] = found
        return Neighbors(distances, self._named(rows))

    def radius_search(self, codes: np.ndarray, radius: int = 2) -> Ball:
        """All items at most `radius` bits from each query code."""
        checks.check_codes(codes, self.bits, "queries")
        checks.check_radius(radius)
        codes = np.ascontiguousarray(codes)
        # Beyond the length of a code, a radius holds everything.
        radius = min(int(radius), self.bits)
        found = None
        if self.kind != "flat" and len(self):
            found = self._built().radius_search(codes, radius)
        if found is None:
            found = structures.range_search(self._codes, codes, radius)
        # What is found may be views of memory that `kept` holds.
        kept, limits, distances, rows = found
        ball = Ball(limits, distances.astype(np.int32), self._named(rows))
        del kept
        return ball

    def codes_of(self, ids) -> np.ndarray:
        """[n, ceil(bits/8)] uint8, the codes of items; all must be there."""
        ids = checks.check_ids(ids)
        rows = self.rows_of(ids)
        checks.raise_unknown(ids[rows < 0])
        # A view of faiss's memory, for this moment.
        faiss = structures.import_faiss()
        width = (self.bits + 7) // 8
        if not len(self):
            return np.zeros((0, width), np.uint8)
        held = faiss.rev_swig_ptr(self._codes.xb.data(), len(self) * width)
        return held.reshape(-1, width)[rows]

    def remove(self, ids) -> None:
        """Removes items; nothing is removed when an id is unknown."""
        ids = checks.check_ids(ids)
        checks.raise_unknown(ids[~np.isin(ids, self._ids)])
        rows = np.flatnonzero(np.isin(self._ids, ids))
        if len(rows):
            self._codes.remove_ids(rows)
            self._set_ids(np.delete(self._ids, rows))
            self._structure, self._saved = None, {}

    def save(self, path: str | None = None) -> None:
        """Writes the index to one file, atomically.

        Where it was loaded from, it is refused if the file is no longer the
        one that was read: what another program has added would be lost.

        Args:
            path: default: where the index was opened or created.
        """
        path = path or self.path
        if path is None:
            raise ValueError("`path` must say where to save the index.")
        if restoring.SAVED[self.kind] and len(self):
            self._built()
        with files.locked(path, _PATIENCE):
            self._check_unchanged(path)
            index_files.write(
                path,
                bits=self.bits,
                kind=self.kind,
                fingerprint=self.fingerprint,
                codes=self._codes.reconstruct_n(0, len(self)),
                ids=self._ids,
                structure=self._structure,
            )
            self._opened(path, archives.read_digest(path))

    def save_mapped(self, path: str) -> None:
        """Writes a file that opens at once and is shared; see `mapped`."""
        mapped.write(
            path,
            self._codes.reconstruct_n(0, len(self)),
            self.bits,
            self.kind,
            None if self._plain else self._ids,
            self.fingerprint,
        )

    @classmethod
    def load(
        cls, path: str, encoder=None
    ) -> "HammingIndex | mapped.MappedIndex":
        """Reads an index that `save` wrote, or maps one of `save_mapped`.

        Args:
            path: the file.
            encoder: what will make the queries, as in the constructor; it
                must be the one that made the codes. None skips the check.
        """
        if map_files.is_mapped(path):
            return mapped.MappedIndex(path, encoder)
        stored = index_files.read(path)
        checks.check_owner(stored.fingerprint, encoder, path)
        index = cls(stored.bits, stored.kind, stored.fingerprint)
        index._opened(path, stored.digest)
        index._codes.add(stored.codes)
        index._set_ids(stored.ids)
        index._saved = stored.structure
        return index

    def _opened(self, path, digest):
        self.path = os.fspath(path)
        self._file = None if digest is None else (self.path, digest)

    def _check_unchanged(self, path):
        if self._file is None or not os.path.exists(path):
            return
        known, digest = self._file
        if os.fspath(path) == known and archives.read_digest(path) != digest:
            raise ValueError(
                "The file that an index was loaded from must not change "
                "before it is saved there, or what others added is lost. "
                f"Received: {path}, which has changed since. Load it and make "
                "the changes again, or save under another name."
            )

    def _set_ids(self, ids):
        self._ids = ids
        # What sorts them, once it is needed.
        self._order: np.ndarray | None = None
        # A piece at a time: a large index leaves little memory.
        self._plain = all(
            np.array_equal(part, np.arange(start, start + len(part)))
            for start in range(0, len(ids), _ROWS)
            for part in (ids[start : start + _ROWS],)
        )

    def rows_of(self, ids: np.ndarray) -> np.ndarray:
        """[n] places of items in `ids`; -1 for one that is not there."""
        if self._plain:
            return np.where((ids < 0) | (ids >= len(self)), -1, ids)
        if self._order is None:
            self._order = np.argsort(self._ids)
        return checks.places(self._ids, self._order, ids)

    def _named(self, rows):
        """Ids of rows, in new memory; a copy when ids are row numbers."""
        return rows.copy() if self._plain else self._ids.take(rows)

    def _built(self):
        if self._structure is None:
            codes = self._codes.reconstruct_n(0, len(self))
            if self._saved:
                self._structure = restoring.restore(
                    self.kind, codes, self._saved
                )
                self._saved = {}
            else:
                make = structures.KINDS[self.kind]
                self._structure = make(codes, self.bits)
        return self._structure

    def _view(self):
        """The codes where they are; good until the next change."""
        if not len(self):
            return np.zeros((0, (self.bits + 7) // 8), np.uint8)
        width = self._codes.code_size
        data = self._codes.xb.data()
        faiss = structures.import_faiss()
        return faiss.rev_swig_ptr(data, len(self) * width).reshape(-1, width)

    def _new_ids(self, ids, count):
        last = int(self._ids.max()) if len(self) else -1
        if ids is None:
            if last + count > checks.LARGEST_ID:
                raise ValueError(
                    f"Ids go up to {checks.LARGEST_ID}, and {count} "
                    f"more after {last} do not fit. Give `ids`."
                )
            return np.arange(last + 1, last + 1 + count, dtype=np.int64)
        ids = checks.check_ids(ids, count)
        # Rising ids, the usual case, need no search for duplicates.
        if len(ids) and len(self) and ids.min() <= last:
            known = ids[np.isin(ids, self._ids)]
            if len(known):
                checks.raise_duplicate(known[0])
        return ids
