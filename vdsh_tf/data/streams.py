"""Rows to encode, read piece by piece: arrays, .npy, .npz, image folders.

Each source has `shape` (n, d), `batches(size)`, `take(rows)` and `names`
(file names for a folder, else None). Memory is that of a batch, whatever the
size of the file. A file is believed no further than it reaches: `read_header`
is what every reader of a .npy file begins with.
"""

import contextlib
import io
import lzma
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO
from typing import NamedTuple

import numpy as np

from vdsh_tf.data import images

# What NumPy raises for headers that it did not write.
_BAD_HEADER = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
)
_KEYS = ("features", "x", "images")
# What a damaged archive or array can raise: NotImplementedError, which is a
# RuntimeError, for an unknown compression, RuntimeError for a password.
_DAMAGE = (
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)


def open_rows(path: str, image_shape=None) -> "ArrayRows | FileRows | Images":
    """Opens a file or folder of rows.

    Args:
        path: `.npy` [n, ...] (rows are flattened), `.npz` with `features`,
            `x` or `images`, or a folder of image files, taken in the order
            of their names.
        image_shape: (height, width, channels) that images are brought to;
            needed for folders.
    """
    if os.path.isdir(path):
        return Images(path, image_shape)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            "There must be a .npy or .npz file, or a folder of images. "
            f"Received: {path}, which does not exist."
        )
    return FileRows(path)


def named_rows(name: str, load_split, image_shape=None):
    """Rows of a run's own data, or of a file or folder.

    Args:
        name: "database" or "query" for the run's own, else a path.
        load_split: called for the run's `datasets.Split`, if needed.
        image_shape: of the pictures that the run was trained on, or None.
    """
    if name in ("database", "query"):
        x = getattr(load_split(), name).x
        return ArrayRows(x) if isinstance(x, np.ndarray) else x
    return open_rows(name, image_shape)


class ArrayRows:
    """Rows that are in memory already."""

    names = None

    def __init__(self, x: np.ndarray):
        self._x = x
        self.shape = x.shape

    def batches(self, size: int) -> Iterator[np.ndarray]:
        for start in range(0, len(self._x), size):
            yield self._x[start : start + size]

    def take(self, rows) -> np.ndarray:
        return self._x[rows]


class FileRows:
    """Rows of a .npy file, or of an array in a .npz archive."""

    names = None

    def __init__(self, path: str):
        self._path = path
        with self._opened() as (_, header):
            width = math.prod(header.shape[1:])
            self.shape = (header.shape[0], width)
            self._dtype = header.dtype

    def batches(self, size: int) -> Iterator[np.ndarray]:
        count, width = self.shape
        with self._opened() as (file, header):
            for start in range(0, count, size):
                rows = min(size, count - start)
                data = self._read(file, rows * width * header.dtype.itemsize)
                yield np.frombuffer(data, header.dtype).reshape(rows, width)

    def take(self, rows) -> np.ndarray:
        rows = np.asarray(rows)
        check_rows(rows, self.shape[0], self._path)
        result = np.empty((len(rows), self.shape[1]), self._dtype)
        start = 0
        for batch in self.batches(4096):
            here = (rows >= start) & (rows < start + len(batch))
            result[here] = batch[rows[here] - start]
            start += len(batch)
        return result

    def _read(self, file, size):
        try:
            data = file.read(size)
            if len(data) != size:
                raise EOFError("it is truncated")
        except _DAMAGE as error:
            raise ValueError(
                f"{self._path} must hold {self.shape[0]} rows, as it says, "
                f"but is damaged. Write it again. Cause: {error}"
            ) from error
        return data

    @contextlib.contextmanager
    def _opened(self):
        with contextlib.ExitStack() as stack:
            try:
                file, size = self._open_array(stack)
                header = read_header(file)
                if len(header.shape) < 2 or 0 in header.shape[1:]:
                    raise ValueError(f"it holds shape={header.shape}")
                check_size(header, size - file.tell())
            except _DAMAGE as error:
                raise ValueError(
                    f"{self._path} must be a .npy file, or a .npz file with "
                    f"{', '.join(_KEYS)}: rows of numbers in C order, [n, d] "
                    f"or [n, height, width, channels]. Cause: {error}"
                ) from error
            yield file, header

    def _open_array(self, stack):
        if not zipfile.is_zipfile(self._path):
            size = os.path.getsize(self._path)
            return stack.enter_context(open(self._path, "rb")), size
        archive = stack.enter_context(zipfile.ZipFile(self._path))
        found = archive.namelist()
        name = next((f"{k}.npy" for k in _KEYS if f"{k}.npy" in found), None)
        if name is None:
            raise ValueError(f"it holds {', '.join(found[:9]) or 'nothing'}")
        file = stack.enter_context(archive.open(name))
        return file, archive.getinfo(name).file_size


class Images:
    """Image files of a folder, decoded and brought to one shape."""

    def __init__(self, path: str, image_shape):
        if image_shape is None:
            raise ValueError(
                "A folder of images needs an encoder that was trained on "
                f"images. Received: {path} for an encoder of features; "
                "compute the features first, and give them as .npy."
            )
        self.names = images.list_files(path)
        self._path = path
        self._image_shape = tuple(image_shape)
        self.shape = (len(self.names), int(np.prod(image_shape)))

    def batches(self, size: int) -> Iterator[np.ndarray]:
        for start in range(0, len(self.names), size):
            yield self.take(range(start, min(start + size, len(self.names))))

    def take(self, rows) -> np.ndarray:
        check_rows(np.asarray(rows), len(self.names), self._path)
        files = [os.path.join(self._path, self.names[row]) for row in rows]
        pictures = [images.decode(file, self._image_shape) for file in files]
        return np.stack(pictures, dtype=np.float32)


def check_rows(rows: np.ndarray, count: int, where: str) -> None:
    """Raises unless all row numbers are from 0 to count - 1."""
    bad = rows[(rows < 0) | (rows >= count)]
    if len(bad):
        raise ValueError(
            f"Row numbers must be from 0 to {count - 1}, the rows of {where}. "
            f"Received: {bad[0]}. Are these ids of other data?"
        )


class ArrayHeader(NamedTuple):
    """What a .npy file says it holds.

    Attributes:
        shape: of the array; all >= 0.
        dtype: of plain numbers or text.
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Bytes of the array, of any number of digits."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes], kinds: str = "fiub") -> ArrayHeader:
    """Reads the header of a C-ordered array of plain numbers.

    Args:
        file: open at its beginning; left where the array begins.
        kinds: the kinds of dtype that may come.

    Raises:
        ValueError: it is something else.
    """
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            found = np.lib.format.read_array_header_1_0(file)
        else:
            found = np.lib.format.read_array_header_2_0(file)
        shape, fortran_order, dtype = found
    except _BAD_HEADER as error:
        raise ValueError(f"it has no header of a .npy file: {error}") from error
    plain = dtype.kind in kinds and dtype.itemsize
    if not plain or any(length < 0 for length in shape):
        raise ValueError(f"it holds dtype={dtype}, shape={shape}")
    # One long dimension lies in memory the same way in both orders.
    if fortran_order and sum(length > 1 for length in shape) > 1:
        raise ValueError("it is in Fortran order; save a C-ordered copy")
    return ArrayHeader(tuple(int(length) for length in shape), dtype)


def check_size(header: ArrayHeader, size: int) -> None:
    """Raises if an array is larger than the bytes that there are."""
    if header.size > size:
        raise ValueError(
            f"it is truncated: shape={header.shape}, dtype={header.dtype} "
            f"takes {header.size} bytes, and there are {size}"
        )


def map_file(path: str) -> np.ndarray:
    """The array of a .npy file, mapped, not read.

    Raises:
        OSError: there is no such file.
        ValueError: it is no .npy file of plain numbers, or truncated.
    """
    # A pipe or device would be waited for.
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("it is not a file")
    with open(path, "rb") as file:
        return map_array(file)


def map_array(file: io.BufferedReader) -> np.ndarray:
    """As `map_file`, for a file that is open at its beginning."""
    header = read_header(file)
    start = file.tell()
    check_size(header, os.fstat(file.fileno()).st_size - start)
    if not header.size:
        return np.zeros(header.shape, header.dtype)
    return np.memmap(file, header.dtype, "r", start, header.shape)
