"""Files of packed codes: a plain .npy, and beside it who made it.

codes.npy        [n, ceil(bits/8)] uint8
codes.npy.json   bits, count, fingerprint of the encoder, source, and sha256
                 of codes.npy, so that nobody takes other codes for these
"""

import hashlib
import io
import json
import os
from collections.abc import Callable

import numpy as np

from vdsh_tf import codes as codes_lib
from vdsh_tf import config
from vdsh_tf import files
from vdsh_tf.data import streams
from vdsh_tf.search import checks
from vdsh_tf.search import searcher

_MOST_RECORD = 1 << 20
# What a record must say: name, test, and the test in words.
_RECORD = (
    ("bits", config.is_count, "an integer >= 1"),
    ("count", config.is_count, "an integer >= 1"),
    ("fingerprint", checks.is_fingerprint, "the name of an encoder"),
)


def write(
    path: str,
    rows,
    hasher,
    fingerprint: str,
    source: str,
    batch_size: int = 1024,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Encodes rows to a file of codes, atomically.

    Args:
        path: `.npy` file to write.
        rows: a source of `streams`.
        hasher: makes packed codes of raw rows, and has their length `bits`,
            as a `Hasher` does.
        fingerprint: of its encoder.
        source: what was encoded, for the record.
        batch_size: rows in memory at a time.
        progress: called with the number of rows done, after every batch.

    Returns:
        Number of rows.
    """
    count = rows.shape[0]
    if count < 1:
        raise ValueError(f"There must be at least one row in {source}.")
    # Two renames, one after the other: codes with the record of others are
    # refused by their digest.
    with (
        files.locked(path),
        files.replacing(path) as partial,
        files.replacing(f"{path}.json") as record,
    ):
        with open(partial, "wb") as f:
            digest = _encode(f, rows, hasher, source, batch_size, progress)
        about = {
            "bits": int(hasher.bits),
            "count": int(count),
            "fingerprint": fingerprint,
            "sha256": digest,
            "source": source,
        }
        with open(record, "w") as f:
            f.write(json.dumps(about, indent=2) + "\n")
    return count


def read(path: str) -> tuple[np.ndarray, dict]:
    """Codes, mapped from their file, and the record of who made them.

    A record of an older version has no digest; one that has is held to it.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There must be a file of codes at {path}; there is none. Make "
            "it with `python tools/encode.py`, or name another."
        )
    try:
        about = _read_record(f"{path}.json")
        with open(path, "rb") as f:
            codes = streams.map_array(f)
            codes_lib.check(codes, about["bits"])
            if len(codes) != about["count"]:
                raise ValueError(f"{len(codes)} codes of {about['count']}")
            if "sha256" in about and about["sha256"] != _digest(f):
                raise ValueError("the codes are not those of the record")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} and {path}.json must be complete, as `python "
            "tools/encode.py` writes them. Encode again. Cause: "
            f"{type(error).__name__}: {error}"
        ) from error
    return codes, about


def _encode(file, rows, hasher, source, batch_size, progress):
    """Writes the codes; returns the digest of the file."""
    shape = (rows.shape[0], (hasher.bits + 7) // 8)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    digest = hashlib.sha256(header.getvalue())
    file.write(header.getvalue())
    done = 0
    batches = rows.batches(batch_size)
    for _, codes in searcher.encoded(hasher, batches, source):
        data = codes.tobytes()
        digest.update(data)
        file.write(data)
        done += len(codes)
        if progress is not None:
            progress(done)
    return digest.hexdigest()


def _read_record(path):
    """Who made the codes; a ValueError if the record does not say."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{path} is not a file")
    with open(path) as f:
        text = f.read(_MOST_RECORD)
    try:
        about = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{path} is no record of codes") from error
    if not isinstance(about, dict):
        raise ValueError(f"{path} is a {type(about).__name__}, not a record")
    for name, suits, kind in _RECORD:
        value = about.get(name)
        if not suits(value):
            raise ValueError(
                f"{name!r} in {path} must be {kind}. Received: {value!r:.80}."
            )
    if not isinstance(about.get("sha256", ""), str):
        raise ValueError(f"'sha256' in {path} must be text")
    return about


def _digest(file):
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()
