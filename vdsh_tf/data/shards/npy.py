"""Shards of plain arrays: `NAME.npy`, `NAME.labels.npy`, `NAME.keys.npy`.

Rows are read where they lie, and never mapped: pages of a map count as memory
of the process, and a file that shrinks under a map ends it.
"""

import math
from collections.abc import Iterator

import numpy as np

from vdsh_tf.data import streams
from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards.places import File

LABELS, KEYS = ".labels.npy", ".keys.npy"
_KIND = "a .npy file of rows in C order, [n, d], that begins and ends whole"


def is_features(name: str) -> bool:
    """Whether a .npy file holds features, by its name."""
    return not name.endswith((LABELS, KEYS))


class NpyShard(formats.Shard):
    """Features, labels and, if there are any, keys, each in a file.

    Args:
        features: the file of features; the others lie beside it.
        keys: whether there is a file of keys.
    """

    def __init__(self, features: File, keys: bool):
        self.name = features.name
        self.remote = features.system is not None
        self._x = _Array(features)
        self._y = _Array(features.with_name(lambda n: n[:-4] + LABELS))
        self._key = None
        if keys:
            self._key = _Array(features.with_name(lambda n: n[:-4] + KEYS))

    def stamp(self):
        return " ".join(array.file.stamp() for array in self._arrays())

    def layout(self):
        shape = self._x.header().shape
        if len(shape) < 2 or 0 in shape[1:]:
            raise formats.ShardError(
                f"{self.name} must hold rows, [n, d]. Received: shape={shape}."
            )
        labels = self._labels_header()
        for array in self._arrays():
            if array.header().shape[0] != shape[0]:
                raise formats.ShardError(
                    f"{array.file.name} must hold one entry per row of "
                    f"{self.name}. Received: {array.header().shape[0]} "
                    f"entries for {shape[0]} rows."
                )
        width = math.prod(shape[1:])
        step = formats.block_rows(width, self._x.header().dtype)
        sizes = [min(step, shape[0] - at) for at in range(0, shape[0], step)]
        pixels = len(shape) in (3, 4) and self._x.header().dtype == np.uint8
        return formats.Layout(
            width,
            self._x.header().dtype,
            labels.shape[1] if len(labels.shape) == 2 else 0,
            tuple(sizes),
            (*shape[1:], 1)[:3] if pixels else None,
        )

    def read(self, start=0, stop=None, labels=True) -> Iterator[formats.Block]:
        header = self._x.header()
        width = math.prod(header.shape[1:])
        step = formats.block_rows(width, header.dtype)
        stop = header.shape[0] if stop is None else stop
        for at in range(start, stop, step):
            rows = at, min(at + step, stop)
            x = self._x.read(*rows).reshape(-1, width)
            if not labels:
                yield formats.Block(x)
                continue
            key = None if self._key is None else self._key.read(*rows)
            yield formats.Block(x, self._y.read(*rows), key)

    def _arrays(self):
        return [a for a in (self._x, self._y, self._key) if a is not None]

    def _labels_header(self):
        try:
            return self._y.header()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{self.name} must have its labels beside it, in "
                f"{self._y.file.name}, which does not exist."
            ) from error


class _Array:
    """A .npy file, of which some rows are read at a time."""

    def __init__(self, file: File):
        self.file = file
        self._header: streams.ArrayHeader | None = None
        self._begin = 0

    def header(self) -> streams.ArrayHeader:
        """What the file says it holds; read once."""
        if self._header is None:
            with (
                formats.reading(self.file.name, _KIND),
                self.file.open() as f,
            ):
                header = streams.read_header(f)
                if not header.shape:
                    raise ValueError("it holds a single number")
                self._begin = f.tell()
                streams.check_size(header, f.seek(0, 2) - self._begin)
            self._header = header
        return self._header

    def read(self, start: int, stop: int) -> np.ndarray:
        """Entries from `start` to `stop`."""
        header = self.header()
        shape = (stop - start, *header.shape[1:])
        row = math.prod(header.shape[1:]) * header.dtype.itemsize
        with formats.reading(self.file.name, _KIND), self.file.open() as f:
            f.seek(self._begin + start * row)
            data = f.read((stop - start) * row)
            if len(data) != (stop - start) * row:
                raise ValueError(f"it ends before row {stop}")
        return np.frombuffer(data, header.dtype).reshape(shape)
