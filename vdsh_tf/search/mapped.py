"""MappedIndex: an index that is searched where it lies on disk.

```python
mapped.write("codes.map", codes, bits=64, kind="hash", encoder=model.encoder)
index = HammingIndex.load("codes.map")          # at once, whatever the size
distances, ids = index.search(queries, k=10)
```

Opening reads a few megabytes. Pages come into memory as they are searched,
and all processes that search the same file share them.
"""

import os

import numpy as np

from vdsh_tf import config
from vdsh_tf import files
from vdsh_tf.search import buckets
from vdsh_tf.search import checks
from vdsh_tf.search import map_files
from vdsh_tf.search import scanning
from vdsh_tf.search.results import Ball
from vdsh_tf.search.results import Neighbors

KINDS = map_files.KINDS
# Seconds to wait while another program writes.
_PATIENCE = 60


def write(
    path: str,
    codes: np.ndarray,
    bits: int,
    kind: str = "flat",
    ids=None,
    encoder=None,
) -> None:
    """Writes codes as a file that `MappedIndex` opens, atomically.

    Takes about 20 bytes of memory per code for "hash", which are sorted, and
    next to none for "flat"; `codes` may be mapped from a file.

    Args:
        path: the file; an old one is replaced, and processes that have it
            open go on with the old one.
        codes: [n, ceil(bits/8)] uint8, packed.
        bits: code length K.
        kind: "flat" or "hash", as for `HammingIndex`.
        ids: [n] distinct integers; default row numbers.
        encoder: what makes the codes, as for `HammingIndex`.
    """
    config.require(
        kind in KINDS, "kind", kind, f"one of {', '.join(KINDS)}", "if mapped"
    )
    checks.check_size(bits)
    step = 1 << 20
    for start in range(0, max(1, len(codes)), step):
        checks.check_codes(np.asarray(codes[start : start + step]), bits)
    arrays = {"codes": codes}
    if ids is not None:
        arrays["ids"] = checks.check_ids(ids, len(codes))
    if kind == "hash":
        arrays = buckets.sort(bits=bits, **arrays)
    about = {
        "bits": int(bits),
        "kind": kind,
        "count": len(codes),
        "fingerprint": checks.fingerprint_of(encoder),
    }
    with (
        files.locked(path, _PATIENCE),
        files.replacing(path) as partial,
        open(partial, "wb") as f,
    ):
        map_files.write(f, about, arrays)


class MappedIndex:
    """Searches a file of `write` by Hamming distance; it does not change.

    - flat: exact, scans everything, on all cores.
    - hash: exact. Fast for radii up to 3, and for the k nearest when they are
      within 2 bits; scans otherwise.

    Args:
        path: the file.
        encoder: what will make the queries, as for `HammingIndex.load`.
        verify: whether to read all of the file now and compare it with its
            digests; `verify()` does it later. Damage that is not looked for
            gives wrong hits, but no reading beyond the file.
    """

    def __init__(self, path: str, encoder=None, verify: bool = False):
        self._file = map_files.read(path, verify)
        header = self._file.header
        checks.check_owner(header["fingerprint"], encoder, path)
        self.path = os.fspath(path)
        self.bits: int = header["bits"]
        self.kind: str = header["kind"]
        self.fingerprint: str | None = header["fingerprint"]
        self._codes = self._file.arrays["codes"]
        self._ids = self._file.arrays.get("ids")
        self._order: np.ndarray | None = None
        self._buckets = None
        if self.kind == "hash":
            starts = self._file.arrays["starts"]
            self._buckets = buckets.Buckets(self._codes, starts)

    def __len__(self) -> int:
        return self._file.header["count"]

    @property
    def ids(self) -> np.ndarray:
        """[n] int64, in the order of the file."""
        if self._ids is None:
            return np.arange(len(self))
        return np.array(self._ids)

    def verify(self) -> None:
        """Reads the whole file; raises a ValueError if it is damaged."""
        map_files.read(self.path, verify=True)

    def search(self, codes: np.ndarray, k: int = 10) -> Neighbors:
        """The k nearest items of each query code."""
        checks.check_codes(codes, self.bits, "queries")
        checks.check_k(k, len(self))
        codes = np.ascontiguousarray(codes)
        distances = np.zeros((len(codes), k), np.int32)
        rows = np.zeros((len(codes), k), np.int64)
        rest = np.arange(len(codes))
        if self._buckets is not None:
            found = [self._buckets.nearest(code, k) for code in codes]
            for i, hits in enumerate(found):
                if hits is not None:
                    distances[i], rows[i] = hits
            rest = np.flatnonzero([hits is None for hits in found])
        if len(rest):
            distances[rest], rows[rest] = scanning.nearest(
                self._codes, codes[rest], int(k)
            )
        return Neighbors(distances, self._named(rows))

    def radius_search(self, codes: np.ndarray, radius: int = 2) -> Ball:
        """All items at most `radius` bits from each query code."""
        checks.check_codes(codes, self.bits, "queries")
        checks.check_radius(radius)
        codes = np.ascontiguousarray(codes)
        radius = min(int(radius), self.bits)
        if self._buckets is not None and radius <= buckets.MOST_FLIPS:
            found = [self._buckets.within(code, radius) for code in codes]
        else:
            found = scanning.within(self._codes, codes, radius)
        limits = np.cumsum([0, *(len(d) for d, _ in found)], dtype=np.int64)
        none = (np.zeros(0, np.int32), np.zeros(0, np.int64))
        distances, rows = (
            np.concatenate(parts) for parts in zip(none, *found, strict=True)
        )
        return Ball(limits, distances, self._named(rows))

    def codes_of(self, ids) -> np.ndarray:
        """[n, ceil(bits/8)] uint8, the codes of items; all must be there."""
        ids = checks.check_ids(ids)
        rows = self.rows_of(ids)
        checks.raise_unknown(ids[rows < 0])
        return np.array(self._codes[rows])

    def rows_of(self, ids: np.ndarray) -> np.ndarray:
        """[n] places of items in `ids`; -1 for one that is not there."""
        if self._ids is None:
            return np.where((ids < 0) | (ids >= len(self)), -1, ids)
        if self._order is None:
            self._order = np.argsort(self._ids)
        return checks.places(self._ids, self._order, ids)

    def add(self, codes, ids=None) -> None:
        """Refused: the file does not change."""
        raise self._fixed("added")

    def remove(self, ids) -> None:
        """Refused: the file does not change."""
        raise self._fixed("removed")

    def save(self, path: str | None = None) -> None:
        """Nothing to do: the index is its file."""
        if path is not None and os.path.abspath(path) != os.path.abspath(
            self.path
        ):
            raise ValueError(
                "A mapped index is its file and is not saved elsewhere. "
                f"Received: path={path}. Copy {self.path}."
            )

    def _named(self, rows):
        return rows if self._ids is None else self._ids.take(rows)

    def _fixed(self, done):
        return ValueError(
            f"Nothing can be {done} in a mapped index, or processes that share "
            f"it would see it change. Received: {self.path}. Build it anew "
            "with `vdsh_tf.search.mapped.write` or `python tools/index.py "
            "--mapped --overwrite`, or use an index that is not mapped."
        )
