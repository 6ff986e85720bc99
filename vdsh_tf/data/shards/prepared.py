"""Shards of any data set that tensorflow-datasets has prepared."""

import os
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards.places import File

PREFIX = "tfds:"
_NAME = re.compile(r"tfds:(?P<name>[^\[\]]+)(\[(?P<splits>[\w+]+)\])?")


def find(name: str, data_dir: str | None) -> list["PreparedShard"]:
    """All shards of a prepared data set.

    Args:
        name: "tfds:NAME" for all its splits, or "tfds:NAME[train+test]"; NAME
            may have a configuration and version, as in tensorflow-datasets.
        data_dir: folder that it was prepared in; default TFDS_DATA_DIR, else
            that of tensorflow-datasets.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(
            "A prepared data set must be named tfds:NAME, or with its splits, "
            f"tfds:NAME[train+test]. Received: {name!r}."
        )
    builder = _builder(match["name"], data_dir)
    splits = match["splits"].split("+") if match["splits"] else None
    splits = splits or list(builder.info.splits)
    unknown = set(splits) - set(builder.info.splits)
    if unknown:
        raise ValueError(
            f"Splits of {name} must be among "
            f"{', '.join(builder.info.splits)}. Received: "
            f"{', '.join(sorted(unknown))}."
        )
    columns = _columns(builder.info.features, name)
    return [
        PreparedShard(builder, split, number, columns)
        for split in splits
        for number, rows in enumerate(builder.info.splits[split].shard_lengths)
        if rows
    ]


class PreparedShard(formats.Shard):
    """One file of a split.

    Args:
        builder: of tensorflow-datasets.
        split: name of the split.
        number: of the file.
        columns: names of the features and of the label.
    """

    def __init__(self, builder, split: str, number: int, columns):
        self._builder = builder
        self._split = split
        self._number = number
        self._columns = columns
        info = builder.info.splits[split]
        self._file = File(os.fspath(info.filepaths[number]))
        self.name = self._file.name

    def stamp(self):
        return self._file.stamp()

    def layout(self):
        feature = self._builder.info.features[self._columns[0]]
        shape = tuple(feature.shape)
        return formats.Layout(
            int(np.prod(shape)),
            np.dtype(feature.np_dtype),
            0,
            None,
            shape if len(shape) == 3 else None,
        )

    def read(self, start=0, stop=None, labels=True) -> Iterator[formats.Block]:
        layout = self.layout()
        size = formats.block_rows(layout.width, layout.dtype)
        kind = "a complete file of tensorflow-datasets"
        with formats.reading(self.name, kind, (tf.errors.OpError,)):
            data = self._builder.as_dataset(
                split=f"{self._split}[{self._number}shard]",
                shuffle_files=False,
            )
            for batch in data.batch(size).prefetch(1).as_numpy_iterator():
                x, y = (batch[name] for name in self._columns)
                x = x.reshape(len(x), -1)
                yield formats.Block(x, y if labels else None)


def _builder(name, data_dir):
    import tensorflow_datasets as tfds

    data_dir = data_dir or os.environ.get("TFDS_DATA_DIR")
    try:
        builder = tfds.builder(name, data_dir=data_dir)
        if not builder.is_prepared():
            raise ValueError("its files are not there")
    except Exception as error:
        raise RuntimeError(
            f"{name} must have been prepared in "
            f"{data_dir or 'the default folder'} by tensorflow-datasets. "
            "Prepare it (`tfds build`, or `tfds.load`), and give its folder as "
            f"`data_dir` or in TFDS_DATA_DIR. Cause: {type(error).__name__}: "
            f"{error}"
        ) from error
    return builder


def _columns(features, name):
    """Names of the image or vector, and of the label."""
    import tensorflow_datasets as tfds

    labels = [
        key
        for key in features
        if isinstance(features[key], tfds.features.ClassLabel)
        or key in ("label", "labels", "y")
    ]
    rows = [
        key
        for key in features
        if key not in labels
        and len(features[key].shape or ()) in (1, 3)
        and features[key].np_dtype is not None
        and np.dtype(features[key].np_dtype).kind in "fiu"
    ]
    first = [key for key in ("image", "features", "x") if key in rows]
    label = [key for key in ("label",) if key in labels]
    if len(first or rows) != 1 or len(label or labels) != 1:
        raise ValueError(
            f"{name} must have one image or vector and one label per row; of "
            "several, those called `image` or `features` and `label` count. "
            f"Received: {dict(features)}."
        )
    chosen = (first or rows)[0]
    if None in features[chosen].shape:
        raise ValueError(
            f"Rows of {name} must be of one shape. Received: {chosen!r} of "
            f"shape {features[chosen].shape}. Resize the pictures, compute "
            "features of one width, and write them as shards."
        )
    return chosen, (label or labels)[0]
