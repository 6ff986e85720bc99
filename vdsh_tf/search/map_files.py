"""The file of a `MappedIndex`: arrays that are used where they lie.

bytes 0-7      b"VDSHMAP1"
bytes 8-11     length of the header, little-endian uint32
header         JSON: format, version, bits, kind, count, fingerprint, and for
               each array its dtype, shape, offset and SHA-256
arrays         each at a multiple of 4096 bytes, little-endian
  codes        [n, ceil(bits/8)] uint8; for "hash", sorted by their first bits
  ids          [n] int64; missing where ids are row numbers of `codes`
  starts       "hash": [2^prefix + 1] int64, where each bucket begins; a bucket
               holds the codes with the same first `prefix` bits

Opening reads the header and `starts` only. Sizes, types and `starts` are
checked then, so that no file makes a search read beyond it; what the arrays
hold is compared with its digests by `verify`.
"""

import hashlib
import json
import os
import struct
from typing import NamedTuple

import numpy as np

from vdsh_tf import config
from vdsh_tf.search import checks

MAGIC = b"VDSHMAP1"
KINDS = ("flat", "hash")
MOST_PREFIX = 24
_FORMAT = "vdsh_tf mapped index"
_PAGE = 4096
_MOST_HEADER = 1 << 16
_CHUNK = 1 << 24
_DTYPES = {"codes": "|u1", "ids": "<i8", "starts": "<i8"}


class Mapped(NamedTuple):
    """Contents of a file.

    Attributes:
        header: as it was read.
        arrays: mapped, read-only, by name.
    """

    header: dict
    arrays: dict[str, np.ndarray]


def is_mapped(path) -> bool:
    """Whether a file begins as a mapped index does."""
    # A pipe or device would be waited for.
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as f:
            return f.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def write(file, about: dict, arrays: dict[str, np.ndarray]) -> None:
    """Writes header and arrays to a file that is open for writing.

    Args:
        file: at its beginning; binary, can be read and sought.
        about: bits, kind, count and fingerprint.
        arrays: by name, as above; may be mapped from other files.
    """
    offset = len(MAGIC) + 4 + _MOST_HEADER
    placed = {}
    for name, array in arrays.items():
        offset += -offset % _PAGE
        file.seek(offset)
        placed[name] = {
            "dtype": _DTYPES[name],
            "shape": list(array.shape),
            "offset": offset,
            "sha256": _write_array(file, array, _DTYPES[name]),
        }
        offset += array.size * np.dtype(_DTYPES[name]).itemsize
    file.truncate(offset)
    header = {"format": _FORMAT, "version": 1, **about, "arrays": placed}
    data = json.dumps(header).encode()
    file.seek(0)
    file.write(MAGIC + struct.pack("<I", len(data)) + data)
    file.flush()
    os.fsync(file.fileno())


def read(path, verify: bool = False) -> Mapped:
    """Maps a file, or says what is wrong with it.

    Args:
        path: the file.
        verify: whether to read all of it and compare with its digests.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There must be a mapped index at {path}; there is none. Build it "
            "with `python tools/index.py --mapped`, or name another."
        )
    try:
        header = _read_header(path)
        arrays = _map_arrays(path, header)
        _check_buckets(header, arrays)
        if verify:
            check_content(header, arrays)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{path} must be a complete mapped index of version 1, but it is "
            "damaged or of another kind. Build it anew with `python "
            "tools/index.py --mapped --overwrite`. Cause: "
            f"{type(error).__name__}: {error}"
        ) from error
    return Mapped(header, arrays)


def check_content(header: dict, arrays: dict[str, np.ndarray]) -> None:
    """Raises a ValueError unless the arrays are those that were written."""
    for name, array in arrays.items():
        state = hashlib.sha256()
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, len(flat), _CHUNK):
            state.update(flat[start : start + _CHUNK].data)
        if state.hexdigest() != header["arrays"][name]["sha256"]:
            raise ValueError(f"`{name}` is not what its digest (SHA-256) says")
    step = _CHUNK // max(1, arrays["codes"].shape[1])
    for start in range(0, header["count"], step):
        part = arrays["codes"][start : start + step]
        checks.check_codes(np.asarray(part), header["bits"])
    if "ids" in arrays:
        checks.check_ids(arrays["ids"], header["count"])


def _write_array(file, array, dtype):
    """Writes piece by piece; returns the digest."""
    state = hashlib.sha256()
    row = max(1, array[:1].nbytes)
    step = max(1, _CHUNK // row)
    for start in range(0, len(array), step):
        part = np.ascontiguousarray(array[start : start + step], dtype)
        data = part.reshape(-1).view(np.uint8).data
        state.update(data)
        file.write(data)
    return state.hexdigest()


def _read_header(path):
    with open(path, "rb") as f:
        start = f.read(len(MAGIC) + 4)
        if len(start) < len(MAGIC) + 4 or not start.startswith(MAGIC):
            raise ValueError("it does not begin as one")
        (length,) = struct.unpack("<I", start[len(MAGIC) :])
        if length > _MOST_HEADER:
            raise ValueError(f"its header has {length} bytes")
        text = f.read(length)
    try:
        header = json.loads(text)
    except RecursionError as error:
        raise ValueError("its header is no JSON text of an index") from error
    if not isinstance(header, dict):
        raise ValueError(f"its header is a {type(header).__name__}")
    about = (header["format"], header["version"])
    if about != (_FORMAT, 1):
        raise ValueError(f"it says {about[0]!r:.80}, version {about[1]!r:.80}")
    maker = header["fingerprint"]
    if maker is not None and not checks.is_fingerprint(maker):
        raise ValueError(f"fingerprint={maker!r:.80}")
    if header["kind"] not in KINDS:
        raise ValueError(f"kind={header['kind']!r:.80}, not one of {KINDS}")
    if not config.is_count(header["count"], 0):
        raise ValueError(f"count={header['count']!r:.80}")
    checks.check_size(header["bits"])
    return header


def _map_arrays(path, header):
    count, width = header["count"], (header["bits"] + 7) // 8
    placed = header["arrays"]
    needed = {"codes", "ids", "starts"} if header["kind"] == "hash" else set()
    if not needed <= set(placed) or "codes" not in placed:
        raise ValueError(f"it holds {sorted(placed)}")
    shapes = {"codes": (count, width), "ids": (count,)}
    size = os.path.getsize(path)
    arrays = {}
    for name, about in placed.items():
        shape = tuple(about["shape"])
        if name == "starts" and len(shape) == 1:
            shapes[name] = (min(shape[0], (1 << MOST_PREFIX) + 1),)
        if about["dtype"] != _DTYPES[name] or shape != shapes[name]:
            raise ValueError(f"`{name}` is {about['dtype']!r:.40}, {shape}")
        arrays[name] = _map(path, name, shape, about["offset"], size)
    return arrays


def _map(path, name, shape, offset, size):
    dtype = np.dtype(_DTYPES[name])
    length = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if not config.is_count(offset) or offset + length > size:
        raise ValueError(f"`{name}` ends beyond the {size} bytes of the file")
    if not length:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape)


def _check_buckets(header, arrays):
    if header["kind"] != "hash":
        return
    starts = arrays["starts"]
    prefix = (len(starts) - 1).bit_length() - 1
    if len(starts) != (1 << max(prefix, 0)) + 1 or prefix > header["bits"]:
        raise ValueError(f"{len(starts)} buckets of {header['bits']} bits")
    ends = starts[0] == 0 and starts[-1] == header["count"]
    if not ends or (starts[1:] < starts[:-1]).any():
        raise ValueError("`starts` does not rise from 0 to the number of codes")
