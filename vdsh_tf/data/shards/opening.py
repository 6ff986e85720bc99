"""Shards by the names that users give them."""

import re
import warnings

from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards import keeping
from vdsh_tf.data.shards import npy
from vdsh_tf.data.shards import places
from vdsh_tf.data.shards.rows import StoredRows

SHARDS = "shards"
_TFDS = "tfds:"
_TFRECORD = re.compile(r"\.tfrecords?(-\d+-of-\d+)?$")


def is_stored(name) -> bool:
    """Whether a data set of this name stays on disk."""
    return name == SHARDS or str(name).startswith(_TFDS)


def open_rows(
    name: str, data_dir: str | None = None, path: str | None = None
) -> StoredRows:
    """All rows of shards; reads them once if nobody has before.

    Args:
        name: "shards", or "tfds:NAME".
        data_dir: for "tfds:NAME": folder that it was prepared in.
        path: for "shards": file, folder, pattern or URL.
    """
    if name != SHARDS:
        # Imports TensorFlow.
        from vdsh_tf.data.shards import prepared

        shards: list = prepared.find(name, data_dir)
        source = name
    else:
        if not path:
            raise ValueError(
                "`shards` needs `path`: a file, a folder, a pattern such as "
                "data/*.parquet, or a URL."
            )
        shards, source = find(path), path
    catalog = keeping.open_catalog(shards, source)
    left_out = len(catalog) - int(catalog.usable.sum())
    if left_out:
        warnings.warn(
            f"{left_out} rows of {source} are all zero: they have no direction "
            "and no code, and are left out.",
            stacklevel=3,
        )
    return StoredRows(shards, catalog)


def find(path: str) -> list[formats.Shard]:
    """The shards of a file, folder, pattern or URL.

    They are .npy, .parquet or .tfrecord files, by their names.
    """
    found = places.find(path)
    names = {file.name for file in found}
    kinds = {file.name: _kind(file.name) for file in found}
    other = [name for name, kind in kinds.items() if kind is None]
    if other or len(set(kinds.values())) > 1:
        kinds_found = sorted({str(kind) for kind in kinds.values()})
        raise ValueError(
            "Shards must be .npy, .parquet or .tfrecord files, all of one "
            f"kind. Received: {path}, which names {len(names)} files, among "
            f"them {(other or sorted(names))[0]} ({', '.join(kinds_found)}). "
            "Name the shards by a pattern, or convert them with "
            "`tools/shard.py`."
        )
    kind = next(iter(kinds.values()))
    if kind == "npy":
        # A single file was named without those beside it.
        shards = [file for file in found if npy.is_features(file.name)]
        if not shards:
            raise ValueError(
                f"There must be features among the shards of {path}; there "
                "are labels or keys only."
            )
        return [
            npy.NpyShard(file, _exists(file.with_name(_keys_of), names))
            for file in shards
        ]
    if kind == "parquet":
        from vdsh_tf.data.shards import parquet

        return [parquet.ParquetShard(file) for file in found]
    from vdsh_tf.data.shards import tfrecord

    return [tfrecord.TFRecordShard(file) for file in found]


def _kind(name):
    if name.endswith(".npy"):
        return "npy"
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    return "tfrecord" if _TFRECORD.search(name) else None


def _keys_of(name):
    return name[:-4] + npy.KEYS


def _exists(file, names):
    if file.name in names:
        return True
    try:
        file.stamp()
    except OSError:
        return False
    return True
