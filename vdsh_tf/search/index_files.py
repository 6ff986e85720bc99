"""The file of a `HammingIndex`: one `.npz` archive of plain arrays.

header     JSON text: format, version, bits, kind, count, fingerprint
codes      [n, ceil(bits/8)] uint8
ids        [n] int64
structure  bytes of the faiss index of distinct codes; this and the next two
           are not there for "flat"
members    [n] int64, row numbers, those with equal codes side by side
starts     [distinct codes] int64, where each code begins in `members`

The archive has checksums, so damage is noticed; nothing in it is pickled.
"""

import json
import os
import zipfile
from typing import NamedTuple

import numpy as np

from vdsh_tf import files

_FORMAT = "vdsh_tf index"
_VERSION = 1
_NO_ROWS = np.zeros(0, np.int64)
# What reading a file that is empty, damaged or of another kind can raise.
_DAMAGE = (
    AttributeError,
    EOFError,
    KeyError,
    OSError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
)


class Stored(NamedTuple):
    """Contents of an index file."""

    bits: int
    kind: str
    fingerprint: str | None
    codes: np.ndarray
    ids: np.ndarray
    structure: np.ndarray | None
    members: np.ndarray
    starts: np.ndarray


def write(path, *, bits, kind, fingerprint, codes, ids, structure) -> None:
    """Writes an index file atomically."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"The folder of an index file must exist. Received: {path}."
        )
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "bits": bits,
        "kind": kind,
        "count": len(ids),
        "fingerprint": fingerprint,
    }
    arrays = {"header": np.array(json.dumps(header)), "codes": codes}
    arrays["ids"] = ids
    if structure is not None:
        arrays["structure"] = structure.to_bytes()
        arrays["members"] = structure.groups.members
        arrays["starts"] = structure.groups.starts
    with files.replacing(path) as partial, open(partial, "wb") as f:
        np.savez(f, allow_pickle=False, **arrays)
        f.flush()
        os.fsync(f.fileno())


def read(path, kinds) -> Stored:
    """Reads an index file, or says what is wrong with it."""
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There must be an index file at {path}; there is none. Build it "
            "with `python tools/index.py`, or name another."
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays["header"]))
        if header["format"] != _FORMAT or header["version"] != _VERSION:
            raise ValueError(
                f"it says {header['format']!r}, version {header['version']}"
            )
        stored = Stored(
            header["bits"],
            header["kind"],
            header["fingerprint"],
            arrays["codes"],
            arrays["ids"],
            arrays.get("structure"),
            *(arrays.get(n, _NO_ROWS) for n in ("members", "starts")),
        )
        _check(stored, header["count"], kinds)
    except _DAMAGE as error:
        raise ValueError(
            f"{path} must be a complete index file of version {_VERSION}, as "
            "`HammingIndex.save` writes it, but it is empty, damaged or of "
            "another kind. Build it anew with `python tools/index.py`, and "
            f"overwrite it. Cause: {type(error).__name__}: {error}"
        ) from error
    return stored


def _check(stored, count, kinds):
    width = (stored.bits + 7) // 8
    if stored.kind not in kinds:
        raise ValueError(f"unknown kind {stored.kind!r}")
    if stored.codes.dtype != np.uint8 or stored.codes.shape != (count, width):
        raise ValueError(f"codes of shape {stored.codes.shape}")
    if stored.ids.dtype != np.int64 or stored.ids.shape != (count,):
        raise ValueError(f"ids of shape {stored.ids.shape}")
    if (stored.structure is None) != (stored.kind == "flat" or count == 0):
        raise ValueError(f"structure does not suit kind {stored.kind!r}")
    if stored.structure is not None and len(stored.members) != count:
        raise ValueError(f"{len(stored.members)} members of {count}")
