"""Codes that keep what labels do not say.

The classifier of Eq. 4 may predict more than labels. With `preserve` > 0 it
also predicts linear functions of the input: y becomes [labels, p(x)], and
everything else stays as it is, for lines 5, 11 and 14 are least squares with as
many targets as there are. There are two sorts of them:

principal  The leading components: items of one class differ where their
           inputs do.
canonical  What correlates best with labels, where a linear function tells
           them (`linear`), as of features from a trained network. VDSH answers
           with one class, a linear function with how much of each there is:
           it places an item of a class that had no label by its likeness to
           those that had one.
"""

import numpy as np
import tensorflow as tf

_POWER_STEPS = 4
_MORE_DIRECTIONS = 8
# Deviation of the first canonical direction, in units of `preserve`.
_CANONICAL = 2.0
# Added to the variances of inputs and labels; rows have length one.
_RIDGE = 1e-4
# More labels than this are mixed at random into as many.
_MOST_LABELS = 512
# Rows that `linear` looks at, neighbours that it asks, and how many times
# their errors it allows: .9 on CNN features and bags of words, 1.9 and more on
# pixels and most tables.
_LOOKED_AT = 5000
_NEIGHBOURS = 10
_MORE_ERRORS = 1.25


def columns(solver) -> int:
    """Number of targets beside the labels."""
    return solver.preserve_rank if solver.preserve else 0


def projection(
    rows: np.ndarray,
    solver,
    weight: np.ndarray | None = None,
    labels: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """What p(x) = x P - offset is made of, from a sample.

    A principal component counts by the fourth root of its variance, halfway
    between as it is and whitened: the first has the deviation `preserve`,
    those that vary less have smaller ones. With labels, up to half of the
    columns are canonical directions: the first has the deviation 2
    `preserve`, the others less, as they correlate less. If there are fewer
    than asked for, the last columns are zero.

    Args:
        rows: [n, d], normalised.
        solver: config.Solver.
        weight: [n] sample weights, or None.
        labels: [n] integers, or [n, C] of 0 and 1; None for principal
            components alone.

    Returns:
        P [d, r] and offset [r].
    """
    rank = columns(solver)
    share = np.full(len(rows), 1.0) if weight is None else weight
    share = (share / np.sum(share, dtype=np.float64))[:, None]
    mean = np.sum(share * rows, axis=0)
    x = np.sqrt(share) * (rows - mean)
    # What rounding leaves of a constant is no direction.
    least = 1e-24 * np.sum(share * np.square(rows))
    found = np.zeros((x.shape[1], 0))
    if labels is not None and np.sum(np.square(x)) > least:
        y = _label_matrix(labels)[0]
        y = np.sqrt(share) * (y - np.sum(share * y, axis=0))
        found = _CANONICAL * _canonical(x, y, rank // 2)
    principal = _principal_targets(x, rank - found.shape[1], least)
    found = solver.preserve * np.concatenate([found, principal], axis=1)
    out = np.zeros((x.shape[1], rank))
    out[:, : found.shape[1]] = found
    return out, mean @ out


def linear(rows: np.ndarray, labels: np.ndarray) -> bool:
    """Whether a linear function tells labels as well as neighbours do.

    Ridge regression and the ten nearest rows of four fifths of a sample name
    a label for each row of the other fifth.

    Args:
        rows: [n, d], normalised.
        labels: [n] integers, or [n, C] of 0 and 1.
    """
    step = max(1, len(rows) // _LOOKED_AT)
    rows, labels = rows[::step].astype(np.float64), labels[::step]
    asked = np.arange(len(rows)) % 5 == 0
    if len(rows) - np.sum(asked) <= _NEIGHBOURS:
        return False
    y, mixed = _label_matrix(labels)
    x, mean, known = rows[~asked], rows[~asked].mean(axis=0), y[~asked]
    root = 1 / np.sqrt(len(x))
    average = known.mean(axis=0)
    slopes = _ridge_regression(root * (x - mean), root * (known - average))
    answers = (rows[asked] - mean) @ slopes + average
    near = np.sum(np.square(x), axis=1) - 2 * rows[asked] @ x.T
    near = np.argpartition(near, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    errors = []
    for found in (answers, known[near].mean(axis=1)):
        best = np.argmax(found @ mixed.T, axis=1)
        own = y[asked] @ mixed.T > 0.5
        errors.append(np.mean(~own[np.arange(len(best)), best]))
    return bool(errors[0] <= _MORE_ERRORS * errors[1])


def targets(y, x, projection, offset):
    """Label vectors [batch, C] with p(x) beside them: [batch, C + r].

    Args:
        y: [batch, C].
        x: [batch, d], normalised rows.
        projection, offset: from `projection`.
    """
    return tf.concat([y, tf.matmul(x, projection) - offset], axis=1)


def _label_matrix(labels):
    """Labels as rows, or random mixtures of many, and what mixes them.

    Returns:
        [n, c], and [C, c]; an identity if there are few labels.
    """
    if labels.ndim == 1:
        labels = np.unique(labels, return_inverse=True)[1]
        count = labels.max(initial=0) + 1
    else:
        count = labels.shape[1]
    mixed = np.eye(count)
    if count > _MOST_LABELS:
        rng = np.random.default_rng(0)
        mixed = rng.normal(size=(count, _MOST_LABELS)) / np.sqrt(_MOST_LABELS)
    return (mixed[labels] if labels.ndim == 1 else labels @ mixed), mixed


def _canonical(x, y, most):
    """Directions of x that correlate with labels, by how much they do.

    They are the slopes of ridge regression on whitened labels, turned so that
    answers do not correlate with each other. An answer has the deviation
    rho / rho_1 for a correlation of rho.

    Args:
        x, y: [n, d] and [n, c], whose products are covariances.
        most: how many directions at most.

    Returns:
        [d, k].
    """
    whiten = y.T @ y + _RIDGE * np.eye(y.shape[1])
    whiten = np.linalg.inv(np.linalg.cholesky(whiten)).T
    slopes = _ridge_regression(x, y @ whiten)
    squares, turn = np.linalg.eigh(whiten.T @ (y.T @ x) @ slopes)
    order = np.argsort(-squares)[:most]
    order = order[squares[order] > 1e-6]
    first = np.sqrt(squares[order[:1]])
    return _pointed(slopes @ turn[:, order]) / first


def _ridge_regression(x, y):
    """(x^T x + ridge)^-1 x^T y, by the smaller of two systems."""
    count, dim = x.shape
    if dim <= count:
        return np.linalg.solve(x.T @ x + _RIDGE * np.eye(dim), x.T @ y)
    return x.T @ np.linalg.solve(x @ x.T + _RIDGE * np.eye(count), y)


def _principal_targets(x, rank, least):
    """Principal directions whose answers have deviations of at most 1.

    Args:
        x: [n, d], whose squares sum up to the variances.
        rank: how many at most.
        least: variance below which there are none.

    Returns:
        [d, k].
    """
    directions, variances = _principal(x, rank)
    kept = variances > max(least, 1e-12 * variances.max(initial=0))
    directions, variances = directions[:, kept], variances[kept]
    relative = variances / variances.max(initial=0) if len(variances) else 1.0
    return directions * relative**0.25 / np.sqrt(variances)


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
    return _pointed(basis @ turned[:rank].T), np.square(values[:rank])


def _pointed(directions):
    """Each column with its largest entry > 0.

    A direction and its opposite are as good; rounding must not choose.
    """
    largest = np.abs(directions).argmax(axis=0)
    signs = np.sign(directions[largest, np.arange(directions.shape[1])])
    return directions * signs
