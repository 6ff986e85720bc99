"""Writers of shards, one per format."""

from collections.abc import Callable

import numpy as np

from vdsh_tf.data.shards import npy
from vdsh_tf.data.shards import parquet

# Rows in a group of a Parquet file: what is read, and shuffled, as one.
_GROUP = 4096

Writer = Callable[..., None]


def write_npy(
    stem: str, x: np.ndarray, y: np.ndarray, key: np.ndarray | None = None
) -> None:
    """Writes `STEM.npy`, `STEM.labels.npy` and maybe `STEM.keys.npy`.

    Args:
        stem: path without ending.
        x: [n, d].
        y: [n] integers or [n, C].
        key: [n] integers, or None.
    """
    if key is not None and key.dtype.kind not in "iu":
        raise ValueError(
            "Keys of .npy shards must be integers. Received: "
            f"{key.dtype}. Write Parquet, or leave keys out."
        )
    np.save(f"{stem}.npy", np.ascontiguousarray(x))
    np.save(f"{stem}{npy.LABELS}", y)
    if key is not None:
        np.save(f"{stem}{npy.KEYS}", key)


def write_parquet(
    stem: str, x: np.ndarray, y: np.ndarray, key: np.ndarray | None = None
) -> None:
    """Writes `STEM.parquet`; arguments as of `write_npy`."""
    arrow = parquet.import_arrow()

    def lists(rows):
        values = arrow.array(np.ascontiguousarray(rows).reshape(-1))
        return arrow.FixedSizeListArray.from_arrays(values, rows.shape[1])

    columns = {
        "features": lists(x),
        "label": lists(y) if y.ndim == 2 else arrow.array(y),
    }
    if key is not None:
        columns["key"] = arrow.array(key)
    arrow.parquet.write_table(
        arrow.table(columns),
        f"{stem}.parquet",
        row_group_size=_GROUP,
        # Floats do not repeat, and hardly shrink.
        use_dictionary=False,
        compression="none",
    )


def write_tfrecord(
    stem: str, x: np.ndarray, y: np.ndarray, key: np.ndarray | None = None
) -> None:
    """Writes `STEM.tfrecord`; arguments as of `write_npy`.

    uint8 rows become one text of bytes, others floats.
    """
    import tensorflow as tf

    def feature(value):
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list={"value": [value]})
        value = np.atleast_1d(value)
        kind = "int64_list" if value.dtype.kind in "iub" else "float_list"
        return tf.train.Feature(**{kind: {"value": value.tolist()}})

    with tf.io.TFRecordWriter(f"{stem}.tfrecord") as writer:
        for i in range(len(x)):
            row = x[i].tobytes() if x.dtype == np.uint8 else x[i].astype("f4")
            values = {"features": row, "label": y[i].astype(np.int64)}
            if key is not None:
                text = key.dtype.kind in "OSU"
                values["key"] = _octets(key[i]) if text else key[i]
            features = {name: feature(v) for name, v in values.items()}
            example = tf.train.Example(features={"feature": features})
            writer.write(example.SerializeToString())


def _octets(key):
    return key if isinstance(key, bytes) else str(key).encode()


WRITERS: dict[str, Writer] = {
    "npy": write_npy,
    "parquet": write_parquet,
    "tfrecord": write_tfrecord,
}


def shard_name(number: int) -> str:
    """Names whose order is that of the numbers."""
    return f"part-{number:05d}"
