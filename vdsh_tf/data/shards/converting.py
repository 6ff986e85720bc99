"""Turns npz, CSV and Parquet files into shards, piece by piece.

The folder of the shards appears when all are written, or not at all.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from collections.abc import Iterator

import numpy as np

from vdsh_tf import files
from vdsh_tf.data import streams
from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards import opening
from vdsh_tf.data.shards import parquet
from vdsh_tf.data.shards import places
from vdsh_tf.data.shards import writing

_NPZ_LABELS = ("labels", "label", "y")


def convert(
    path: str,
    out: str,
    kind: str = "npy",
    rows: int = 65536,
    label: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Writes the rows of files as shards.

    Args:
        path: .npz file with `features` and `labels`; .csv or .parquet files
            (a folder, pattern or URL) with a column of labels and columns of
            numbers, or one of lists of numbers; or shards.
        out: folder to make.
        kind: npy, parquet or tfrecord.
        rows: in each shard.
        label: column of the labels of .csv files; default label, labels, y.
        progress: called with the number of rows done.

    Returns:
        Number of rows.
    """
    if kind not in writing.WRITERS:
        raise ValueError(
            f"`kind` must be one of {', '.join(writing.WRITERS)}. Received: "
            f"kind={kind!r}."
        )
    count = 0
    with _new_folder(out) as folder:
        parts = _parts(_blocks(path, label), rows)
        for number, block in enumerate(parts):
            stem = os.path.join(folder, writing.shard_name(number))
            writing.WRITERS[kind](stem, *block)
            count += len(block.x)
            if progress is not None:
                progress(count)
        if not count:
            raise ValueError(f"There must be at least one row in {path}.")
    return count


@contextlib.contextmanager
def _new_folder(out):
    """A folder beside `out`, which takes its name at the end."""
    out = os.path.abspath(out)
    if os.path.exists(out):
        raise FileExistsError(
            "The folder of the shards must be new, or old and new ones would "
            f"be read together. Received: {out}, which exists."
        )
    parent, name = os.path.split(out)
    os.makedirs(parent, exist_ok=True)
    folder = os.path.join(parent, f".{name}.partial")
    with files.locked(out):
        # What a killed process has left.
        shutil.rmtree(folder, ignore_errors=True)
        try:
            os.mkdir(folder)
            yield folder
            os.rename(folder, out)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _parts(blocks, rows):
    """Blocks of `rows` rows each; the last has what is left."""
    held: list[formats.Block] = []
    count = 0
    for block in blocks:
        while len(block.x):
            taken = _cut(block, slice(0, rows - count))
            held.append(taken)
            count += len(taken.x)
            block = _cut(block, slice(len(taken.x), None))
            if count == rows:
                yield _joined(held)
                held, count = [], 0
    if held:
        yield _joined(held)


def _cut(block, part):
    return formats.Block(*(a if a is None else a[part] for a in block))


def _joined(blocks):
    columns = zip(*blocks, strict=True)
    return formats.Block(
        *(None if c[0] is None else np.concatenate(c) for c in columns)
    )


def _blocks(path, label) -> Iterator[formats.Block]:
    if path.endswith(".npz"):
        return _npz_blocks(path)
    found = places.find(path)
    if all(file.name.endswith(".csv") for file in found):
        return _csv_blocks(found, label)
    if all(file.name.endswith(".parquet") for file in found):
        return _parquet_blocks(found, label)
    shards = opening.find(path)
    return (block for shard in shards for block in shard.read())


def _parquet_blocks(found, label):
    """Of shards, and of tables with a column per number."""
    arrow = parquet.import_arrow()
    for file in found:
        shard = parquet.ParquetShard(file)
        if shard.has_lists():
            yield from shard.read()
            continue
        for batch in shard.tables():
            yield _from_columns(arrow, batch, label, file.name)


def _npz_blocks(path):
    """Features are read piece by piece, labels at once."""
    source = streams.open_rows(path)
    with formats.reading(path, "a .npz file of features and labels"):
        with np.load(path, allow_pickle=False) as data:
            name = next((n for n in _NPZ_LABELS if n in data), None)
            if name is None:
                raise ValueError(f"it has no labels, but {sorted(data)}")
            labels = data[name]
        if len(labels) != source.shape[0]:
            raise ValueError(
                f"it has {len(labels)} labels for {source.shape[0]} rows"
            )
    at = 0
    size = formats.block_rows(source.shape[1], np.dtype("f4"))
    for x in source.batches(size):
        yield formats.Block(x, labels[at : at + len(x)])
        at += len(x)


def _csv_blocks(found, label):
    arrow = parquet.import_arrow()
    import pyarrow.csv

    for file in found:
        with (
            formats.reading(file.name, "a CSV file with a head, of numbers"),
            file.open() as source,
            pyarrow.csv.open_csv(source) as reader,
        ):
            for batch in reader:
                yield _from_columns(arrow, batch, label, file.name)


def _from_columns(arrow, batch, label, name):
    names = batch.schema.names
    known = (label,) if label else parquet.LABELS
    label = next((n for n in known if n in names), None)
    key = next((n for n in parquet.KEYS if n in names), None)
    others = [n for n in names if n not in (label, key)]
    if label is None or not others:
        raise formats.ShardError(
            f"{name} must have a column of labels ({', '.join(known)}) and "
            f"columns of numbers. Received: {', '.join(names)}."
        )
    arrays = {n: batch.column(n) for n in names}
    for n in others:
        kind = arrays[n].type
        types = arrow.types
        if not (types.is_floating(kind) or types.is_integer(kind)):
            raise formats.ShardError(
                f"Column {n!r} of {name} must hold numbers. Received: {kind}. "
                "Leave the column out, or turn it into numbers."
            )
    if any(array.null_count for array in arrays.values()):
        raise formats.ShardError(
            f"{name} must have a value in every row and column. Received: "
            "missing ones. Fill them in, or drop such rows."
        )
    plain = {n: a.to_numpy(zero_copy_only=False) for n, a in arrays.items()}
    x = np.stack([plain[n] for n in others], axis=1).astype(np.float32)
    if plain[label].dtype.kind not in "iub":
        raise formats.ShardError(
            f"Labels of {name} must be integers from 0. Received: "
            f"{arrays[label].type} in column {label!r}. Number the classes."
        )
    return formats.Block(x, plain[label], None if key is None else plain[key])
