"""Files of packed codes: a plain .npy, and beside it who made it.

codes.npy        [n, ceil(bits/8)] uint8
codes.npy.json   bits, count, fingerprint of the encoder, source
"""

import contextlib
import json
import os
from collections.abc import Callable

import numpy as np

from vdsh_tf import codes as codes_lib
from vdsh_tf import files
from vdsh_tf.search import searcher


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
    count, width = rows.shape[0], (hasher.bits + 7) // 8
    if count == 0:
        raise ValueError(f"There must be at least one row in {source}.")
    header = {"descr": "|u1", "fortran_order": False, "shape": (count, width)}
    with files.replacing(path) as partial:
        with open(partial, "wb") as f:
            np.lib.format.write_array_header_1_0(f, header)
            done = 0
            batches = rows.batches(batch_size)
            for _, codes in searcher.encoded(hasher, batches, source):
                f.write(codes.tobytes())
                done += len(codes)
                if progress is not None:
                    progress(done)
        # Codes without their maker are refused; with the wrong one, not.
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{path}.json")
    about = {
        "bits": hasher.bits,
        "count": count,
        "fingerprint": fingerprint,
        "source": source,
    }
    files.write_json(f"{path}.json", about)
    return count


def read(path: str) -> tuple[np.ndarray, dict]:
    """Codes, mapped from their file, and the record of who made them."""
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There must be a file of codes at {path}; there is none. Make "
            "it with `python tools/encode.py`, or name another."
        )
    try:
        with open(f"{path}.json") as f:
            about = json.load(f)
        codes = np.load(path, mmap_mode="r", allow_pickle=False)
        if len(codes) != about["count"]:
            raise ValueError(f"{len(codes)} codes of {about['count']}")
        codes_lib.check(codes, about["bits"])
    except (OSError, EOFError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} and {path}.json must be complete, as `python "
            "tools/encode.py` writes them. Encode again. Cause: "
            f"{type(error).__name__}: {error}"
        ) from error
    return codes, about
