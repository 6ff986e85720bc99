"""Archives of plain arrays that prove their content (`.npz`, SHA-256).

`np.load` opens them. Zip's own checksums notice damage, but anyone can renew
them; the digest, an array of its own, is over the name, type, shape and bytes
of every other array. Reading takes no more memory than the file has bytes,
whatever the file says of itself, and nothing is pickled.
"""

import hashlib
import os
import struct
import zipfile
import zlib

import numpy as np

from vdsh_tf import files
from vdsh_tf.data import streams

DIGEST = "digest"
_MOST_ARRAYS = 16
_CHUNK = 1 << 16
# What reading an archive that is damaged or of another kind can raise:
# RuntimeError for passwords and, as NotImplementedError, for other methods.
_DAMAGE = (
    EOFError,
    LookupError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def write(path: str, arrays: dict[str, np.ndarray]) -> None:
    """Writes arrays and their digest atomically."""
    arrays = {name: np.asarray(a, order="C") for name, a in arrays.items()}
    proof = np.frombuffer(digest(arrays), np.uint8)
    with files.replacing(path) as partial, open(partial, "wb") as f:
        np.savez(f, allow_pickle=False, **arrays, **{DIGEST: proof})
        f.flush()
        os.fsync(f.fileno())


def read(path: str) -> tuple[dict[str, np.ndarray], bytes | None]:
    """Reads what `write` wrote.

    Returns:
        The arrays, and their digest; None if the file has none.

    Raises:
        ValueError: the file is damaged, of another kind, or not what its
            digest says.
    """
    try:
        with open(path, "rb") as f, zipfile.ZipFile(f) as archive:
            members = _members(archive, os.fstat(f.fileno()).st_size)
            arrays = {n: _array(archive, m) for n, m in members.items()}
    except _DAMAGE as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if DIGEST not in arrays:
        return arrays, None
    said = arrays.pop(DIGEST).tobytes()
    if said != digest(arrays):
        raise ValueError("its arrays are not those of its digest (SHA-256)")
    return arrays, said


def read_digest(path: str) -> bytes | None:
    """The digest that a file says it has, or None."""
    try:
        with open(path, "rb") as f, zipfile.ZipFile(f) as archive:
            members = _members(archive, os.fstat(f.fileno()).st_size)
            return _array(archive, members[DIGEST]).tobytes()
    except _DAMAGE:
        return None


def digest(arrays: dict[str, np.ndarray]) -> bytes:
    """SHA-256 of all arrays, whatever their order."""
    state = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        about = f"{name} {array.dtype.str} {array.shape}\n"
        state.update(about.encode())
        state.update(array.reshape(-1).view(np.uint8).data)
    return state.digest()


def _members(archive, size):
    """Members by the name of their array, all together no larger than `size`.

    A compressed member could be a thousand times its size in the file.
    """
    found = archive.infolist()
    names = [info.filename.removesuffix(".npy") for info in found]
    if len(set(names)) != len(names) or len(names) > _MOST_ARRAYS:
        raise ValueError(f"it holds {len(names)} arrays, or one twice")
    for info in found:
        stored = info.compress_type == zipfile.ZIP_STORED
        if not stored or info.compress_size != info.file_size:
            raise ValueError(f"{info.filename} is compressed")
    if sum(info.file_size for info in found) > size:
        raise ValueError("its arrays are larger than the file")
    return dict(zip(names, found, strict=True))


def _array(archive, info):
    with archive.open(info) as file:
        header = streams.read_header(file, "iuU")
        left = info.file_size - file.tell()
        if header.size != left:
            raise ValueError(
                f"{info.filename} says shape={header.shape}, "
                f"dtype={header.dtype}, and has {left} bytes"
            )
        # Not zeros: a member that ends early is an error below.
        data = np.empty(left, np.uint8)
        done = 0
        while done < left:
            count = file.readinto(memoryview(data)[done : done + _CHUNK])
            if not count:
                raise EOFError(f"{info.filename} is truncated")
            done += count
        # At the end, zipfile compares its checksum; also for no bytes.
        file.read()
    return data.view(header.dtype).reshape(header.shape)
