"""Lines 12-14: what all samples agree on, from their sums alone."""

import tensorflow as tf

from vdsh_tf.solver import subproblems
from vdsh_tf.solver.records import Sums


def relative_gamma(sq_norms, solver):
    """gamma of each layer: the user's, or from a scale-free step.

    A weight copy closes the share  beta |x|^2 / (beta |x|^2 + gamma)  of its
    error. Chooses gamma so that the share is `copy_step` at the mean |x|^2.

    Args:
        sq_norms: for each layer the mean of |x|^2 over samples, a scalar.
        solver: config.Solver.
    """
    if solver.gamma is not None:
        return (solver.gamma,) * len(sq_norms)
    scale = solver.beta * (1.0 / solver.copy_step - 1.0)
    # A layer whose inputs are all zero is left alone.
    return tuple(scale * tf.maximum(s, 1e-20) for s in sq_norms)


def sums_of(directions, a, top_code, y, weight=None, lengths=None):
    """Sums of a batch. A weight counts a sample as if it came so many times.

    Args:
        directions: per-layer [batch, D_in], along which weight copies moved.
        a: per-layer [batch, D_out], how far.
        top_code: [batch, K], z_M.
        y: [batch, C], label vectors.
        weight: [batch, 1] sample weights, or None.
        lengths: for each layer a scalar that a lacks, or None.
    """
    count = tf.cast(tf.shape(y)[0], y.dtype)
    weighted = top_code
    if weight is not None:
        count = tf.reduce_sum(weight)
        weighted = top_code * weight
        a = [move * weight for move in a]
    outer = [
        tf.matmul(direction, move, transpose_a=True)
        for direction, move in zip(directions, a, strict=True)
    ]
    if lengths is not None:
        outer = [o * length for o, length in zip(outer, lengths, strict=True)]
    zz = tf.matmul(weighted, top_code, transpose_a=True)
    zy = tf.matmul(weighted, y, transpose_a=True)
    return Sums(count, tuple(outer), zz, zy)


def theta_moves(theta, sums, gamma, solver):
    """theta - theta+ of line 12, for each layer.

    Moves can be 1e-6 of a weight; the difference is never taken in numbers.
    """
    moves = []
    for kernel, outer, g in zip(theta, sums.outer, gamma, strict=True):
        shrink = solver.alpha_theta / g
        move = outer * (-1.0 / (sums.count + shrink))
        if solver.alpha_theta:
            move += kernel * (shrink / (sums.count + shrink))
        moves.append(move)
    return tuple(moves)


def classifier_move(classifier, sums, solver):
    """W - W+ of line 14, the ridge classifier of all top codes."""
    return classifier - subproblems.solve_classifier(
        sums.zz, sums.zy, solver.alpha_w
    )


def classifier_gradient(classifier, sums, solver):
    """Gradient of line 14's objective per sample, for an optimizer."""
    total = tf.matmul(sums.zz, classifier) - sums.zy
    return (total + solver.alpha_w * classifier) / sums.count
