"""Labelled rows in a .npz file: what is needed of it, and nothing else.

Members that nobody asked for are not unpacked; those that are must fit in
memory, and be plain arrays.
"""

import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Collection

import numpy as np

from vdsh_tf import config

# What a damaged archive or array can raise.
_DAMAGE = (
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def read(
    path: str, names: Collection[str], rows: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Those of the arrays `names` that the file holds.

    Args:
        path: the file.
        names: of all arrays that are asked for.
        rows: names among them that must not be a single number.

    Raises:
        ValueError: it is no .npz file, damaged, or has something else than
            plain arrays under these names.
    """
    try:
        # A pipe or a device would be waited for.
        if not os.path.isfile(path):
            raise ValueError("it is not a file")
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no archive; is it a .npy file?")
        with np.load(path, allow_pickle=False) as data:
            found = [name for name in names if name in data.files]
            _check_memory(path, found)
            arrays = {name: data[name] for name in found}
            others = sorted(data.files)
    except _DAMAGE as error:
        raise ValueError(
            f"{path} must be a .npz file of plain arrays, as `np.savez` "
            f"writes it. Cause: {error}"
        ) from error
    if not arrays:
        raise ValueError(
            f"{path} must hold `features` and `labels`. Received: "
            f"{', '.join(others[:9]) or 'no arrays'}."
        )
    for name, array in arrays.items():
        is_array = isinstance(array, np.ndarray)
        if not is_array or (name in rows and array.ndim == 0):
            raise ValueError(
                f"`{name}` in {path} must be an array of rows. Received: "
                f"{array!r:.80}."
            )
    return arrays


def _check_memory(path, names):
    with zipfile.ZipFile(path) as archive:
        need = sum(
            info.file_size
            for info in archive.infolist()
            if info.filename.removesuffix(".npy") in names
        )
    config.require_memory(need, "its arrays")
