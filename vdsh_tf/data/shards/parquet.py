"""Shards in Parquet: a list column of features, a label, maybe a key."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards.places import File

FEATURES = ("features", "x", "image")
LABELS = ("label", "labels", "y")
KEYS = ("key", "id")
_TABLE_ROWS = 8192
_KIND = "a complete Parquet file of features and labels"


def import_arrow() -> Any:
    """pyarrow with its Parquet, or an error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet and CSV need pyarrow, which is not installed. Run "
            "`pip install 'vdsh_tf[shards]'`, or `pip install pyarrow`."
        ) from error
    return pyarrow


class ParquetShard(formats.Shard):
    """A Parquet file, read by row groups.

    Args:
        file: the file.
    """

    def __init__(self, file: File):
        self.name = file.name
        self.remote = file.system is not None
        self._file = file
        self._metadata: Any = None
        self._names: tuple[str, str, str | None] | None = None
        self._width = 0

    def stamp(self):
        return self._file.stamp()

    def layout(self):
        with self._opened() as file:
            schema = file.schema_arrow
            groups = file.metadata
            sizes = [
                groups.row_group(i).num_rows
                for i in range(groups.num_row_groups)
            ]
            features, label, _ = self._names = _columns(schema, self.name)
            kind = schema.field(features).type
            width = self._width = self._find_width(file, features)
        dtype = np.dtype(kind.value_type.to_pandas_dtype())
        labels = schema.field(label).type
        columns = labels.list_size if _is_fixed(labels) else 0
        # An empty group is no piece.
        return formats.Layout(width, dtype, columns, tuple(filter(None, sizes)))

    def read(self, start=0, stop=None, labels=True) -> Iterator[formats.Block]:
        if self._names is None:
            self.layout()
        features, label, key = self._names or ("", "", None)
        names = [features]
        if labels:
            names += [label, *([key] if key else [])]
        with self._opened() as file, formats.reading(self.name, _KIND):
            groups = _groups(file.metadata, start, stop)
            dtype = file.schema_arrow.field(features).type.value_type
            size = formats.block_rows(
                self._width, np.dtype(dtype.to_pandas_dtype())
            )
            done = start
            for batch in file.iter_batches(
                size, row_groups=groups, columns=names, use_threads=False
            ):
                if batch.num_rows:
                    yield self._block(batch, names, done)
                    done += batch.num_rows

    def has_lists(self) -> bool:
        """Whether features are lists, and not a column per number."""
        with self._opened() as file:
            return any(_is_rows(field.type) for field in file.schema_arrow)

    def tables(self) -> Iterator[Any]:
        """All columns, as record batches."""
        with self._opened() as file, formats.reading(self.name, _KIND):
            yield from file.iter_batches(_TABLE_ROWS)

    def _opened(self):
        arrow = import_arrow()
        with formats.reading(self.name, _KIND):
            # pyarrow reads files of this machine without Python's help.
            here = self._file.system is None
            source = self._file.name if here else self._file.open()
            file = arrow.parquet.ParquetFile(source, metadata=self._metadata)
        self._metadata = file.metadata
        return file

    def _find_width(self, file, features):
        kind = file.schema_arrow.field(features).type
        if _is_fixed(kind):
            return kind.list_size
        with formats.reading(self.name, _KIND):
            for batch in file.iter_batches(1, columns=[features]):
                lengths = batch.column(0).value_lengths().to_pylist()
                if lengths and lengths[0]:
                    return lengths[0]
        return 1

    def _block(self, batch, names, start):
        x = _matrix(batch.column(0), self._width, self.name, start, "features")
        y = key = None
        if len(names) > 1:
            y = _labels(batch.column(1), self.name, start)
        if len(names) > 2:
            key = _plain(batch.column(2), self.name, start, names[2])
        return formats.Block(x, y, key)


def _is_fixed(kind):
    return import_arrow().types.is_fixed_size_list(kind)


def _is_rows(kind):
    types = import_arrow().types
    if not (types.is_fixed_size_list(kind) or types.is_list(kind)):
        return False
    value = kind.value_type
    return types.is_floating(value) or types.is_integer(value)


def _columns(schema, name):
    """Names of features, label and key (or None)."""
    label = next((n for n in LABELS if n in schema.names), None)
    if label is None:
        raise formats.ShardError(
            f"{name} must have a column of labels, called one of "
            f"{', '.join(LABELS)}. Received: columns "
            f"{', '.join(schema.names)}."
        )
    key = next((n for n in KEYS if n in schema.names), None)
    lists = [
        field.name
        for field in schema
        if field.name not in (label, key) and _is_rows(field.type)
    ]
    known = [n for n in FEATURES if n in lists]
    if len(known or lists) != 1:
        raise formats.ShardError(
            f"{name} must have one column of features, lists of numbers of "
            f"one length; of several, one called {', '.join(FEATURES)}. "
            f"Received: columns {', '.join(schema.names)}, of which "
            f"{', '.join(lists) or 'none'} are such lists."
        )
    return (known or lists)[0], label, key


def _groups(metadata, start, stop):
    """Numbers of the row groups from row `start` to row `stop`."""
    found, at = [], 0
    for i in range(metadata.num_row_groups):
        end = at + metadata.row_group(i).num_rows
        if at >= start and (stop is None or end <= stop) and end > at:
            found.append(i)
        at = end
    return found


def _plain(column, name, start, what):
    """A column as an array; every row must have a value."""
    if column.null_count:
        row = start + column.is_valid().to_pylist().index(False)
        raise formats.ShardError(
            f"Every row of {name} must have its {what}. Received: none (null) "
            f"in row {row}. Fill it in, or drop such rows."
        )
    return column.to_numpy(zero_copy_only=False)


def _labels(column, name, start):
    if _is_rows(column.type) or _is_fixed(column.type):
        width = column.value_lengths()[0].as_py() if len(column) else 0
        return _matrix(column, width, name, start, "label")
    return _plain(column, name, start, "label")


def _matrix(column, width, name, start, what):
    """Lists of one length as [n, width], without a copy where there is none."""
    values = column.flatten()
    if column.null_count or values.null_count:
        raise formats.ShardError(
            f"Every row of {name} must have its {what}, without missing "
            f"values. Received: null in rows {start} to "
            f"{start + len(column) - 1}."
        )
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    other = np.flatnonzero(lengths != width)
    if len(other):
        raise formats.ShardError(
            f"Rows of {name} must be of one width, {width}. Received: {what} "
            f"of {lengths[other[0]]} in row {start + other[0]}."
        )
    return values.to_numpy(zero_copy_only=False).reshape(-1, width)
