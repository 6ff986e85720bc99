"""What callers pass as arrays: lists, tables, tensors, sparse matrices.

One function makes a plain array of each, or says why it cannot. No TensorFlow.
"""

import numpy as np

from vdsh_tf import config


def plain(value, name: str) -> np.ndarray:
    """A NumPy array of what a caller gave, or a ValueError.

    Args:
        value: anything that NumPy takes for an array of numbers, or a sparse
            matrix of SciPy, which becomes a dense one if it fits in memory.
        name: what it is, for the message: "Features" or "Labels".
    """
    if value is None:
        raise ValueError(f"{name} must be given. Received: None.")
    if hasattr(value, "toarray"):
        return _dense(value, name)
    if isinstance(value, np.ma.MaskedArray):
        return _unmasked(value, name)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{name} must be an array, or lists of equal length. Received: "
            f"{type(value).__name__}, of which NumPy says: {error}"
        ) from error
    if array.ndim == 0:
        raise ValueError(
            f"{name} must be an array, a table, a sparse matrix or lists of "
            f"numbers. Received: {type(value).__name__}."
        )
    if array.dtype == object and hasattr(value, "to_numpy"):
        array = _from_table(value, array)
    # TensorFlow has no longer numbers.
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array


def _from_table(value, array):
    """Numbers of a table whose columns may lack some; else as it was."""
    try:
        return value.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        return array


def _dense(value, name):
    config.require_memory(
        np.prod(value.shape, dtype=float) * value.dtype.itemsize,
        f"{name}, a sparse matrix of shape={value.shape} that is made dense,",
        "Give a `tf.data` dataset whose batches are dense.",
    )
    return np.asarray(value.toarray())


def _unmasked(value, name):
    masked = np.argwhere(np.ma.getmaskarray(value))
    if len(masked):
        raise ValueError(
            f"{name} must be known: masks have no meaning to a network. "
            f"Received: a masked entry in row {masked[0][0]} ({len(masked)} "
            "such entries). Drop these rows, or fill them (`x.filled(0)`)."
        )
    return np.asarray(value.data)
