"""Rows to encode, read piece by piece: arrays, .npy, .npz, image folders.

Each source has `shape` (n, d), `batches(size)`, `take(rows)` and `names`
(file names for a folder, else None). Memory is that of a batch, whatever the
size of the file.
"""

import contextlib
import os
import zipfile
from collections.abc import Iterator

import numpy as np

from vdsh_tf.data import images

_KEYS = ("features", "x", "images")


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
        return ArrayRows(getattr(load_split(), name).x)
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
        with self._opened() as (_, shape, dtype):
            width = int(np.prod(shape[1:], dtype=np.int64))
            self.shape = (shape[0], width)
            self._dtype = dtype

    def batches(self, size: int) -> Iterator[np.ndarray]:
        count, width = self.shape
        with self._opened() as (file, _, dtype):
            for start in range(0, count, size):
                rows = min(size, count - start)
                data = file.read(rows * width * dtype.itemsize)
                if len(data) != rows * width * dtype.itemsize:
                    raise ValueError(
                        f"{self._path} must hold {count} rows, as it says, "
                        f"but ends before row {start + rows}: it is "
                        "truncated. Write it again."
                    )
                yield np.frombuffer(data, dtype).reshape(rows, width)

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

    @contextlib.contextmanager
    def _opened(self):
        with contextlib.ExitStack() as stack:
            try:
                file = self._open_array(stack)
                shape, dtype = _read_header(file)
            except (ValueError, EOFError, zipfile.BadZipFile) as error:
                raise ValueError(
                    f"{self._path} must be a .npy file, or a .npz file with "
                    f"{', '.join(_KEYS)}: rows of numbers in C order, [n, d] "
                    f"or [n, height, width, channels]. Cause: {error}"
                ) from error
            yield file, shape, dtype

    def _open_array(self, stack):
        if not zipfile.is_zipfile(self._path):
            return stack.enter_context(open(self._path, "rb"))
        archive = stack.enter_context(zipfile.ZipFile(self._path))
        found = [n.removesuffix(".npy") for n in archive.namelist()]
        key = next((key for key in _KEYS if key in found), None)
        if key is None:
            raise ValueError(f"it holds {', '.join(found) or 'nothing'}")
        return stack.enter_context(archive.open(f"{key}.npy"))


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


def _read_header(file):
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        header = np.lib.format.read_array_header_1_0(file)
    else:
        header = np.lib.format.read_array_header_2_0(file)
    shape, fortran_order, dtype = header
    if dtype.kind not in "fiub" or len(shape) < 2:
        raise ValueError(f"it holds dtype={dtype}, shape={shape}")
    if fortran_order and 1 not in shape[:2]:
        raise ValueError("it is in Fortran order; save a C-ordered copy")
    return shape, dtype
