"""Checks of features and labels, at the edges where data enters.

Arrays are checked whole before anything runs; `tf.data` is checked batch by
batch inside its own pipeline, so that the training step carries no asserts.
"""

import numpy as np
import tensorflow as tf

_CURE = "Clean or drop these rows before training or encoding."


def check_features(x, width: int | None = None) -> np.ndarray:
    """Returns `x` as an array of rows that can be hashed, or raises."""
    x = np.asarray(x)
    if x.dtype.kind not in "fiub":
        raise ValueError(
            f"Features must be numbers. Received: dtype={x.dtype}."
        )
    if x.ndim != 2:
        raise ValueError(
            "Features must be rows, [n, d]; flatten images first. Received: "
            f"shape={x.shape}."
        )
    if len(x) == 0:
        raise ValueError(
            "There must be at least one row of features. Received: an empty "
            f"dataset, shape={x.shape}."
        )
    if width is not None and x.shape[1] != width:
        raise ValueError(
            f"Features must be {width} wide, as the network was built. "
            f"Received: shape={x.shape}."
        )
    _check_rows(x)
    return x


def check_labels(y, num_classes: int | None = None) -> np.ndarray:
    """Returns labels as int64 [n] or float32 multi-hot [n, C], or raises."""
    y = np.asarray(y)
    if y.ndim == 2:
        return _check_multi_hot(y, num_classes)
    if y.ndim != 1 or y.dtype.kind not in "iub":
        raise ValueError(
            "Labels must be integers [n] or multi-hot rows [n, C]. Received: "
            f"shape={y.shape}, dtype={y.dtype}."
        )
    y = y.astype(np.int64)
    top = num_classes if num_classes is not None else np.inf
    bad = np.flatnonzero((y < 0) | (y >= top))
    if len(bad):
        raise ValueError(
            f"Labels must be from 0 to {top - 1}, the classes of the model. "
            f"Received: label {y[bad[0]]} in row {bad[0]} ({len(bad)} such "
            "rows). Renumber the labels, or raise `num_classes`."
        )
    if len(np.unique(y)) < 2:
        raise ValueError(
            "Labels must hold at least two classes, or there is nothing to "
            f"tell apart. Received: only label {y[0] if len(y) else 'none'}."
        )
    return y


def check_pair(x, y, width=None, num_classes=None):
    """Checks features and labels that belong together."""
    x = check_features(x, width)
    y = check_labels(y, num_classes)
    if len(x) != len(y):
        raise ValueError(
            "Every row of features needs its label. Received: "
            f"{len(x)} rows and {len(y)} labels."
        )
    return x, y


def checked_dataset(dataset, width: int | None, num_classes: int):
    """A `tf.data` dataset of (x, y) batches that raises on bad rows."""
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2:
        raise ValueError(
            "The dataset must yield (x, y) pairs; sample weights are not "
            f"supported. Received: element_spec={spec}."
        )
    if dataset.cardinality() == 0:
        raise ValueError(
            "There must be at least one batch. Received: an empty dataset."
        )
    x_spec, y_spec = spec
    if x_spec.shape.rank != 2 or x_spec.shape[1] is None:
        raise ValueError(
            "The dataset must yield batches of rows of a known width, "
            f"[batch, d]; did you forget `.batch()`? Received: {x_spec}."
        )
    if width is not None and x_spec.shape[1] != width:
        raise ValueError(
            f"Features must be {width} wide, as the network was built. "
            f"Received: {x_spec}."
        )
    if y_spec.shape.rank == 2 and y_spec.shape[1] != num_classes:
        raise ValueError(
            f"Multi-hot labels must have num_classes={num_classes} columns. "
            f"Received: {y_spec}."
        )
    if y_spec.shape.rank not in (1, 2) or (
        y_spec.shape.rank == 1 and not y_spec.dtype.is_integer
    ):
        raise ValueError(
            "Labels must be integers [batch] or multi-hot rows [batch, C]. "
            f"Received: {y_spec}."
        )

    def check(x, y):
        rows = tf.cast(x, tf.float32)
        checks = [
            tf.debugging.assert_equal(
                tf.reduce_all(tf.math.is_finite(rows)),
                True,
                f"Features must be finite; a batch has NaN or inf. {_CURE}",
            ),
            tf.debugging.assert_equal(
                tf.reduce_all(tf.reduce_any(rows != 0, axis=-1)),
                True,
                "Features must not be all zero, such a row has no direction; "
                f"a batch has one. {_CURE}",
            ),
        ]
        top = num_classes if y.shape.rank == 1 else 2
        checks.append(
            tf.debugging.assert_equal(
                tf.reduce_all((y >= 0) & (y < tf.cast(top, y.dtype))),
                True,
                f"Labels must be from 0 to {top - 1}; a batch has others. "
                "Renumber the labels, or raise `num_classes`.",
            )
        )
        with tf.control_dependencies(checks):
            return tf.identity(x), tf.identity(y)

    return dataset.map(check, num_parallel_calls=tf.data.AUTOTUNE).prefetch(
        tf.data.AUTOTUNE
    )


def label_vectors(y, num_classes: int, dtype):
    """Label vectors [batch, C] of integer or multi-hot labels, in a graph."""
    if y.shape.rank == 1:
        return tf.one_hot(tf.cast(y, tf.int32), num_classes, dtype=dtype)
    return tf.cast(y, dtype)


def _check_rows(x, chunk=8192):
    for start in range(0, len(x), chunk):
        rows = x[start : start + chunk]
        if x.dtype.kind == "f":
            bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
            if len(bad):
                row = start + bad[0]
                raise ValueError(
                    "Features must be finite, or one row spoils all weights. "
                    f"Received: NaN or inf in row {row}. {_CURE}"
                )
        bad = np.flatnonzero(~rows.any(axis=1))
        if len(bad):
            raise ValueError(
                "Features must not be all zero, such a row has no direction "
                f"and no code. Received: zeros in row {start + bad[0]}. "
                f"{_CURE}"
            )


def _check_multi_hot(y, num_classes):
    if num_classes is not None and y.shape[1] != num_classes:
        raise ValueError(
            f"Multi-hot labels must have num_classes={num_classes} columns. "
            f"Received: shape={y.shape}."
        )
    if y.shape[1] < 2:
        raise ValueError(
            "Labels must hold at least two classes, or there is nothing to "
            f"tell apart. Received: shape={y.shape}."
        )
    if not np.isin(y, (0, 1)).all():
        raise ValueError(
            "Multi-hot labels must be 0 or 1. Received: values from "
            f"{y.min()} to {y.max()}."
        )
    return y.astype(np.float32)
