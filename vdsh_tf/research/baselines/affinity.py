"""Which pairs of training rows are alike: +1 when they share a label."""

import numpy as np


def dense(y: np.ndarray) -> np.ndarray:
    """S: [n, C] of {0, 1} -> [n, n] float32 of +1 and -1."""
    return np.where(y @ y.T > 0, np.float32(1), np.float32(-1))


def times(y: np.ndarray):
    """The map v -> S v, without S where each row has exactly one label.

    S = 2 Y Y^T - 1 1^T then has the rank of the classes, and a product costs
    n C instead of n^2.
    """
    if np.all(y.sum(axis=1) == 1):
        return lambda v: 2 * (y @ (y.T @ v)) - v.sum(axis=0)
    s = dense(y)
    return lambda v: s @ v
