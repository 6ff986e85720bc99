"""The file of a `HammingIndex`: one archive of plain arrays, see `archives`.

header     JSON text: format, version, bits, kind, count, fingerprint
codes      [n, ceil(bits/8)] uint8
ids        [n] int64
digest     [32] uint8, SHA-256 of all other arrays
centres    [cells, ceil(bits/8)] uint8; "ivf" only
members    [n] int64, row numbers, those with equal codes side by side; this
           and what follows is for "hnsw" only
starts     [distinct codes] int64, where each code begins in `members`
levels, links, entry   the graph of distinct codes, see `graph_checks`

A structure is saved only for an index that is not empty. Version 1 had no
digest, and the bytes of a faiss index; it is read after more checks, and its
structure is built anew: faiss is given no bytes of a file.
"""

import json
import os
from typing import NamedTuple

import numpy as np

from vdsh_tf import config
from vdsh_tf.search import archives
from vdsh_tf.search import checks
from vdsh_tf.search import restoring

KINDS = tuple(restoring.SAVED)
_FORMAT = "vdsh_tf index"
_VERSION = 2
_MOST_HEADER = 1 << 16
# How faiss marks its own bytes, in version 1.
_MARKS = {"hash": b"IBHh", "ivf": b"IBwF", "hnsw": b"IBHf"}


class Stored(NamedTuple):
    """Contents of an index file.

    Attributes:
        structure: what `restoring` makes one from; may be empty.
        digest: of the file, or None.
    """

    bits: int
    kind: str
    fingerprint: str | None
    codes: np.ndarray
    ids: np.ndarray
    structure: dict[str, np.ndarray]
    digest: bytes | None


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
        "bits": int(bits),
        "kind": kind,
        "count": len(ids),
        "fingerprint": fingerprint,
    }
    arrays = {
        "header": np.array(json.dumps(header)),
        "codes": codes,
        "ids": ids,
        **restoring.arrays_of(kind, structure),
    }
    archives.write(path, arrays)


def read(path) -> Stored:
    """Reads an index file, or says what is wrong with it."""
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There must be an index file at {path}; there is none. Build it "
            "with `python tools/index.py`, or name another."
        )
    try:
        arrays, digest = archives.read(path)
        header = _read_header(arrays)
        _check_header(header)
        if digest is None and header["version"] != 1:
            raise ValueError("it has no digest")
        saved = _saved(header)
        _check_names(arrays, {"codes", "ids", *saved})
        codes, ids = arrays.pop("codes"), arrays.pop("ids")
        _check_items(header, codes, ids)
        if saved and header["version"] == 1:
            _check_structure_1(header["kind"], codes, **arrays)
            arrays = {}
        elif saved:
            restoring.check(header["kind"], codes, arrays)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path} must be a complete index file of version {_VERSION}, as "
            "`HammingIndex.save` writes it, but it is empty, damaged or of "
            "another kind. Build it anew with `python tools/index.py`, and "
            f"overwrite it. Cause: {type(error).__name__}: {error}"
        ) from error
    maker = header["fingerprint"]
    return Stored(
        header["bits"], header["kind"], maker, codes, ids, arrays, digest
    )


def _read_header(arrays):
    text = arrays.pop("header")
    if text.dtype.kind != "U" or text.shape or text.nbytes > _MOST_HEADER:
        raise ValueError(f"its header is {text.dtype}, shape {text.shape}")
    # NumPy would take characters that are none.
    order = "be" if text.dtype.str.startswith(">") else "le"
    data = text.tobytes().decode(f"utf-32-{order}").rstrip("\0")
    try:
        header = json.loads(data)
    except RecursionError as error:
        raise ValueError("its header is no JSON text of an index") from error
    if not isinstance(header, dict):
        raise ValueError(f"its header is a {type(header).__name__}")
    about = (header["format"], header["version"])
    if about not in ((_FORMAT, 1), (_FORMAT, _VERSION)):
        raise ValueError(f"it says {about[0]!r}, version {about[1]!r}")
    return header


def _check_header(header):
    maker = header["fingerprint"]
    if header["kind"] not in KINDS:
        raise ValueError(f"unknown kind {header['kind']!r}")
    if not config.is_count(header["count"], 0):
        raise ValueError(f"count={header['count']!r}")
    if maker is not None and not checks.is_fingerprint(maker):
        raise ValueError(f"fingerprint={maker!r:.80}")
    checks.check_size(header["bits"])


def _saved(header):
    """Names of the arrays of the structure."""
    if header["kind"] == "flat" or not header["count"]:
        return ()
    if header["version"] == 1:
        return ("structure", "members", "starts")
    return restoring.SAVED[header["kind"]]


def _check_names(arrays, names):
    if set(arrays) != names:
        raise ValueError(f"it holds {sorted(arrays)}, and not {sorted(names)}")


def _check_items(header, codes, ids):
    count = header["count"]
    if codes.shape[:1] != (count,) or ids.dtype != np.int64:
        raise ValueError(f"codes {codes.shape} of {count}, ids {ids.dtype}")
    checks.check_codes(codes, header["bits"])
    checks.check_ids(ids, count)


def _check_structure_1(kind, codes, structure, members, starts):
    """Raises unless this can be a structure of version 1."""
    if structure.reshape(-1)[:4].tobytes() != _MARKS[kind]:
        raise ValueError(f"its structure is not of kind {kind!r}")
    restoring.check_groups(members, starts, codes)
