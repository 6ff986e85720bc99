"""Checks of features and labels in arrays, before anything runs.

`tensors` has the same for `tf.data`; here is no TensorFlow.
"""

import numpy as np

CURE = "Clean or drop these rows before training or encoding."


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
    check_width(x.shape[1], width, f"shape={x.shape}")
    _check_rows(x)
    return x


def check_width(got: int, width: int | None, received) -> None:
    """Raises unless rows are as wide as the network; None is not checked."""
    if width is not None and got != width:
        raise ValueError(
            f"Features must be {width} wide, as the network was built. "
            f"Received: {received}."
        )


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


def check_columns(got: int | None, num_classes: int, received) -> None:
    """Raises unless multi-hot labels have a column for each class."""
    if got != num_classes:
        raise ValueError(
            f"Multi-hot labels must have num_classes={num_classes} columns. "
            f"Received: {received}."
        )


def check_weights(weight, count: int) -> np.ndarray | None:
    """Returns sample weights as float32 [n], or raises; None stays None."""
    if weight is None:
        return None
    weight = np.asarray(weight)
    if weight.shape != (count,) or weight.dtype.kind not in "fiub":
        raise ValueError(
            f"Sample weights must be numbers, one per row, [{count}]. "
            f"Received: shape={weight.shape}, dtype={weight.dtype}."
        )
    weight = weight.astype(np.float32)
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError(
            "Sample weights must be finite and >= 0, and not all zero, or "
            "there is nothing to learn from. Received: values from "
            f"{weight.min()} to {weight.max()}."
        )
    return weight


def check_pair(x, y, width=None, num_classes=None):
    """Checks features and labels that belong together."""
    x = check_features(x, width)
    y = check_labels(y, num_classes)
    check_lengths(x, y)
    return x, y


def check_lengths(x, y) -> None:
    """Raises unless there are as many rows as labels."""
    if len(x) != len(y):
        raise ValueError(
            "Every row of features needs its label. Received: "
            f"{len(x)} rows and {len(y)} labels."
        )


def _check_rows(x, chunk=8192):
    for start in range(0, len(x), chunk):
        rows = x[start : start + chunk]
        if x.dtype.kind == "f":
            bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
            if len(bad):
                row = start + bad[0]
                raise ValueError(
                    "Features must be finite, or one row spoils all weights. "
                    f"Received: NaN or inf in row {row}. {CURE}"
                )
        bad = np.flatnonzero(~rows.any(axis=1))
        if len(bad):
            raise ValueError(
                "Features must not be all zero, such a row has no direction "
                f"and no code. Received: zeros in row {start + bad[0]}. "
                f"{CURE}"
            )


def _check_multi_hot(y, num_classes):
    if num_classes is not None:
        check_columns(y.shape[1], num_classes, f"shape={y.shape}")
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
