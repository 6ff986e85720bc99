"""Checks of features and labels in arrays, before anything runs.

`tensors` has the same for `tf.data`; here is no TensorFlow.
"""

import numpy as np

from vdsh_tf.data import arrays

CURE = "Clean or drop these rows before training or encoding."
# Largest entry of a row: float32 ends at 2^128, and a mean may be taken off.
# A row whose entries are all smaller than TINY counts as zero in float32.
LARGEST = 2.0**126
TINY = float(np.finfo(np.float32).tiny)
# Below, small entries of a row would be lost beside its largest.
_SMALL = 2.0**-60


def check_features(
    x, width: int | None = None, scale_free: bool = False
) -> np.ndarray:
    """Returns `x` as an array of rows that can be hashed, or raises.

    Args:
        x: rows of numbers, see `arrays.plain`.
        width: that rows must have; None is not checked.
        scale_free: whether a factor on a row changes nothing, as for an
            encoder that takes no mean off. Rows beyond the range of float32
            then get a power of two that brings them back, which is exact;
            else they are refused.
    """
    x = arrays.plain(x, "Features")
    if x.dtype.kind not in "fiub":
        raise ValueError(
            f"Features must be numbers. Received: dtype={x.dtype}."
        )
    if x.ndim != 2:
        raise ValueError(
            "Features must be rows, [n, d]; flatten images first. Received: "
            f"shape={x.shape}."
        )
    if x.size == 0:
        raise ValueError(
            "There must be at least one row of features. Received: an empty "
            f"dataset, shape={x.shape}."
        )
    check_width(x.shape[1], width, f"shape={x.shape}")
    if x.dtype.kind == "f":
        return _check_floats(x, scale_free)
    for start, rows in _pieces(x):
        _refuse_zeros(rows.any(axis=1), start)
    return x


def check_width(got: int, width: int | None, received) -> None:
    """Raises unless rows are as wide as the network; None is not checked."""
    if width is not None and got != width:
        raise ValueError(
            f"Features must be {width} wide, as the network was built. "
            f"Received: {received}."
        )


def check_labels(
    y, num_classes: int | None = None, several: bool = True
) -> np.ndarray:
    """Returns labels as int64 [n] or float32 multi-hot [n, C], or raises.

    Args:
        y: labels; a single column [n, 1] counts as [n].
        num_classes: C; None is not checked.
        several: whether there must be two classes, as to train on.
    """
    y = arrays.plain(y, "Labels")
    if y.ndim == 2 and y.shape[1] == 1 and y.dtype.kind in "iub":
        y = y[:, 0]
    if y.ndim == 2:
        return _check_multi_hot(y, num_classes)
    if y.ndim != 1 or y.dtype.kind not in "iub":
        raise ValueError(
            "Labels must be integers [n] or multi-hot rows [n, C]. Received: "
            f"shape={y.shape}, dtype={y.dtype}. Convert whole numbers with "
            "`y.astype(int)`; number other labels from 0."
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
    if several and len(np.unique(y)) < 2:
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
    weight = arrays.plain(weight, "Sample weights")
    if weight.shape != (count,) or weight.dtype.kind not in "fiub":
        raise ValueError(
            f"Sample weights must be numbers, one per row, [{count}]. "
            f"Received: shape={weight.shape}, dtype={weight.dtype}."
        )
    with np.errstate(over="ignore"):
        weight = weight.astype(np.float32)
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError(
            "Sample weights must be finite and >= 0, and not all zero, or "
            "there is nothing to learn from. Received: values from "
            f"{weight.min()} to {weight.max()}."
        )
    return weight


def check_pair(
    x, y, width=None, num_classes=None, scale_free=False, several=True
):
    """Checks features and labels that belong together."""
    x = check_features(x, width, scale_free)
    y = check_labels(y, num_classes, several)
    check_lengths(x, y)
    return x, y


def check_lengths(x, y) -> None:
    """Raises unless there are as many rows as labels."""
    if len(x) != len(y):
        raise ValueError(
            "Every row of features needs its label. Received: "
            f"{len(x)} rows and {len(y)} labels."
        )


def _check_floats(x, scale_free):
    """Rows in the range of float32, or an error that names the first bad."""
    peaks = np.empty(len(x), x.dtype)
    for start, rows in _pieces(x):
        # One pass, no copy; NaN and inf come through.
        peak = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        _refuse(
            ~np.isfinite(peak),
            start,
            "Features must be finite, or one row spoils all weights. "
            f"Received: NaN or inf in row {{}}. {CURE}",
        )
        _refuse_zeros(peak != 0, start)
        peaks[start : start + len(rows)] = peak
    if x.dtype.itemsize < 4:
        return x
    if scale_free:
        return _scaled(x, peaks)
    _refuse(
        peaks > LARGEST,
        0,
        "Features must be at most 2^126 (8.5e37) in size, because they are "
        "computed with in float32. Received: a larger number in row {}. "
        "Divide all features by one factor.",
    )
    _refuse(
        peaks < TINY,
        0,
        "Features must not all be smaller than 1.2e-38, which is zero in "
        "float32: such a row has no code. Received: one in row {}. Multiply "
        "all features by one factor.",
    )
    return x


def _scaled(x, peaks):
    """Rows out of range times a power of two; a copy where there are any."""
    out = (peaks > LARGEST) | (peaks < _SMALL)
    if not out.any():
        return x
    _, exponents = np.frexp(peaks[out])
    x = x.copy()
    x[out] = np.ldexp(x[out], -exponents[:, None])
    return x


def _pieces(x, size=8192):
    """Rows piece by piece, with the number of the first."""
    for start in range(0, len(x), size):
        yield start, x[start : start + size]


def _refuse_zeros(some, start):
    _refuse(
        ~some,
        start,
        "Features must not be all zero, such a row has no direction and no "
        f"code. Received: zeros in row {{}}. {CURE}",
    )


def _refuse(bad, start, sentence):
    if bad.any():
        row = start + int(np.argmax(bad))
        raise ValueError(sentence.format(row))


def _check_multi_hot(y, num_classes):
    if num_classes is not None:
        check_columns(y.shape[1], num_classes, f"shape={y.shape}")
    if y.shape[1] < 2:
        raise ValueError(
            "Labels must hold at least two classes, or there is nothing to "
            f"tell apart. Received: shape={y.shape}."
        )
    if y.dtype.kind not in "fiub":
        raise ValueError(
            f"Multi-hot labels must be numbers. Received: dtype={y.dtype}."
        )
    if not np.isin(y, (0, 1)).all():
        raise ValueError(
            "Multi-hot labels must be 0 or 1. Received: values from "
            f"{y.min()} to {y.max()}."
        )
    return y.astype(np.float32)
