"""Shards of tf.train.Example: `features`, `label` and maybe `key`.

Records have no fixed size, so that a file is read from its beginning to its
end: write many files of some ten megabytes.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards.places import File

FEATURES = ("features", "x", "image")
LABELS = ("label", "labels", "y")
KEYS = ("key", "id")
_KIND = (
    "a complete TFRecord file of tf.train.Example, each with features (floats, "
    "or one text of bytes, the pixels) and label (integers), as the first has"
)
_ERRORS = (tf.errors.OpError,)


class TFRecordShard(formats.Shard):
    """A TFRecord file.

    Args:
        file: the file.
    """

    def __init__(self, file: File):
        self.name = file.name
        self.remote = file.system is not None
        self._file = file
        self._found: tuple[formats.Layout, dict, tuple] | None = None

    def stamp(self):
        return self._file.stamp()

    def layout(self):
        return self._first()[0]

    def read(self, start=0, stop=None, labels=True) -> Iterator[formats.Block]:
        layout, spec, names = self._first()
        size = formats.block_rows(layout.width, layout.dtype)
        with (
            self._local() as path,
            formats.reading(self.name, _KIND, _ERRORS),
        ):
            records = tf.data.TFRecordDataset(path).batch(size)
            parsed = records.map(lambda r: tf.io.parse_example(r, spec))
            for example in parsed.as_numpy_iterator():
                yield _block(example, names, layout, labels)

    @contextlib.contextmanager
    def _local(self):
        """A path that TensorFlow can read."""
        if self._file.system is None:
            yield self._file.name
            return
        with (
            tempfile.TemporaryDirectory() as folder,
            formats.reading(self.name, _KIND),
        ):
            path = os.path.join(folder, "shard.tfrecord")
            with self._file.open() as source, open(path, "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
            yield path

    def _first(self):
        """Layout, parsing and names, from the first record."""
        if self._found is None:
            with (
                self._local() as path,
                formats.reading(self.name, _KIND, _ERRORS),
            ):
                records = tf.data.TFRecordDataset(path).take(1)
                record = next(records.as_numpy_iterator(), None)
            if record is None:
                raise formats.ShardError(
                    f"{self.name} must hold at least one row. Received: an "
                    "empty file. Leave it out."
                )
            with formats.reading(self.name, _KIND, _ERRORS):
                self._found = _describe(record)
        return self._found


def _describe(record):
    """Layout, parsing and names of a serialized Example."""
    example = tf.train.Example()
    try:
        example.ParseFromString(record)
    except Exception as error:
        raise ValueError(f"its first record is no Example: {error}") from error
    given = example.features.feature
    names = tuple(
        next((n for n in known if n in given), None)
        for known in (FEATURES, LABELS, KEYS)
    )
    if names[0] is None or names[1] is None:
        raise ValueError(f"it has no features or no label, but {sorted(given)}")
    x, y = given[names[0]], given[names[1]]
    spec = {}
    if x.WhichOneof("kind") == "bytes_list":
        width, dtype = len(x.bytes_list.value[0]), np.dtype(np.uint8)
        spec[names[0]] = tf.io.FixedLenFeature([], tf.string)
    else:
        width, dtype = len(x.float_list.value), np.dtype(np.float32)
        spec[names[0]] = tf.io.FixedLenFeature([width], tf.float32)
    labels = len(y.int64_list.value)
    if not width or not labels:
        raise ValueError("its first record has no numbers, or no label")
    columns = labels if labels > 1 else 0
    spec[names[1]] = tf.io.FixedLenFeature([columns] * (labels > 1), tf.int64)
    if names[2] is not None:
        text = given[names[2]].WhichOneof("kind") == "bytes_list"
        kind = tf.string if text else tf.int64
        spec[names[2]] = tf.io.FixedLenFeature([], kind)
    return formats.Layout(width, dtype, columns, None), spec, names


def _block(example, names, layout, labels):
    x = example[names[0]]
    if x.dtype == object:
        sizes = {len(value) for value in x}
        if sizes != {layout.width}:
            raise ValueError(f"it has texts of {sorted(sizes)} bytes")
        x = np.frombuffer(b"".join(x), np.uint8).reshape(len(x), -1)
    if not labels:
        return formats.Block(x)
    key = None if names[2] is None else example[names[2]]
    return formats.Block(x, example[names[1]], key)
