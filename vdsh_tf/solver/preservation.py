"""Codes that keep what labels do not say.

The classifier of Eq. 4 may predict more than labels. With `preserve` > 0 it
also predicts the leading principal components of the input: y becomes
[labels, p(x)], and everything else stays as it is, for lines 5, 11 and 14 are
least squares with as many targets as there are. Codes of one class then differ
where their inputs do, and items of classes without a label find each other.
"""

import numpy as np
import tensorflow as tf

_POWER_STEPS = 4
_MORE_DIRECTIONS = 8


def columns(solver) -> int:
    """Number of targets beside the labels."""
    return solver.preserve_rank if solver.preserve else 0


def projection(
    rows: np.ndarray, solver, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """What p(x) = x P - offset is made of, from a sample.

    A component counts by the fourth root of its variance, halfway between as
    it is and whitened: the first has the deviation `preserve`, those that vary
    less have smaller ones. If there are fewer components than asked for, the
    last columns are zero.

    Args:
        rows: [n, d], normalised.
        solver: config.Solver.
        weight: [n] sample weights, or None.

    Returns:
        P [d, r] and offset [r].
    """
    rank = columns(solver)
    share = np.full(len(rows), 1.0) if weight is None else weight
    share = (share / np.sum(share, dtype=np.float64))[:, None]
    mean = np.sum(share * rows, axis=0)
    directions, variances = _principal(np.sqrt(share) * (rows - mean), rank)
    out = np.zeros((rows.shape[1], rank))
    least = 1e-12 * variances.max(initial=0)
    # What rounding leaves of a constant is no component.
    least = max(least, 1e-24 * np.sum(share * np.square(rows)))
    kept = np.flatnonzero(variances > least)
    if len(kept):
        relative = variances[kept] / variances[kept[0]]
        scale = solver.preserve * relative**0.25 / np.sqrt(variances[kept])
        out[:, kept] = directions[:, kept] * scale
    return out, mean @ out


def targets(y, x, projection, offset):
    """Label vectors [batch, C] with p(x) beside them: [batch, C + r].

    Args:
        y: [batch, C].
        x: [batch, d], normalised rows.
        projection, offset: from `projection`.
    """
    return tf.concat([y, tf.matmul(x, projection) - offset], axis=1)


def _principal(rows, rank):
    """Leading directions [d, k] and variances [k], k <= rank, by iteration.

    Args:
        rows: [n, d], whose squares sum up to the variances.
        rank: how many at most.
    """
    count, dim = rows.shape
    rank = min(rank, dim, count)
    rng = np.random.default_rng(0)
    width = min(rank + _MORE_DIRECTIONS, dim)
    basis = np.linalg.qr(rng.normal(size=(dim, width)))[0]
    for _ in range(_POWER_STEPS):
        basis = np.linalg.qr(rows.T @ (rows @ basis))[0]
    _, values, turned = np.linalg.svd(rows @ basis, full_matrices=False)
    directions = basis @ turned[:rank].T
    # A direction and its opposite are as good; rounding must not choose.
    largest = np.abs(directions).argmax(axis=0)
    directions *= np.sign(directions[largest, np.arange(rank)])
    return directions, np.square(values[:rank])
