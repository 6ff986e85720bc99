"""Eq. 4, Eq. 9 and the norms that show convergence. Pure functions."""

import tensorflow as tf

from vdsh_tf.solver import subproblems
from vdsh_tf.solver import weight_copies
from vdsh_tf.solver.records import numbered


def objective(embedding, y, theta, classifier, solver):
    """Eq. 4, the training objective.

        1/2 sum_i |classifier^T F(x_i) - y_i|^2
        + alpha_theta/2 sum_m |theta_m|^2 + alpha_w/2 |classifier|^2

    Args:
        embedding: [batch, K], F(x).
        y: [batch, C], label vectors.
        theta: per-layer kernels.
        classifier: [K, C].
        solver: config.Solver.
    """
    costs = tf.reduce_sum(sample_costs(embedding, y, classifier))
    return costs + penalty(theta, classifier, solver)


def sample_costs(embedding, y, classifier):
    """The first term of Eq. 4 for each sample: [batch]."""
    error = tf.matmul(embedding, classifier) - y
    return 0.5 * tf.reduce_sum(tf.square(error), axis=1)


def penalty(theta, classifier, solver):
    """The other terms of Eq. 4."""
    total = 0.5 * solver.alpha_w * _sq(classifier)
    if solver.alpha_theta:
        squares = tf.add_n([_sq(t) for t in theta])
        total += 0.5 * solver.alpha_theta * squares
    return total


def augmented_lagrangian(weights, x, state, y, gamma, solver):
    """Eq. 9 after an iteration, with the weight copies in low-rank form.

    Args:
        weights: Weights after `full.consensus_step`.
        x: [batch, d], inputs.
        state: SampleState after the `full.sample_step` before it.
        y: [batch, C], label vectors.
        gamma: one scalar per layer.
        solver: config.Solver.
    """
    z, u = {0: x, **numbered(state.z)}, numbered(state.u)
    total = objective(state.z[-1], y, weights.theta, weights.classifier, solver)
    history = zip(*weights[:3], state.moves(x), gamma, strict=True)
    for m, (theta, prev, prev2, moves, g) in enumerate(history, start=1):
        # Line 12 has made theta(k-1) of line 11 the previous value.
        copy = weight_copies.copy_of(prev, prev2, *moves)
        violation = weight_copies.violation_of(theta, prev, prev2, *moves)
        f = tf.nn.relu(copy.matvec(z[m - 1]))
        total += 0.5 * solver.beta * _sq(z[m] - f + u[m])
        total += 0.5 * g * tf.reduce_sum(violation.squared_norm())
    return total


def mean_norms(layers):
    """Mean over samples of the length of rows, for each layer: [M]."""
    return mean_lengths(
        [subproblems.row_sum(tf.square(rows)) for rows in layers]
    )


def mean_lengths(squares):
    """Mean over samples of the lengths of rows, from their squares: [M]."""
    return tf.reduce_mean(tf.sqrt(tf.concat(squares, axis=1)), axis=0)


def weight_dual_norms(weights, x, state, gamma):
    """Mean over samples of gamma |v_{i,m}|, for each layer: [M]."""
    norms = []
    history = zip(*weights[:2], state.moves(x), gamma, strict=True)
    for theta, prev, (x_m, a, *_), g in history:
        dual = weight_copies.dual_of(theta, prev, x_m, a)
        sq_norm = tf.maximum(dual.squared_norm(), 0)
        norms.append(g * tf.reduce_mean(tf.sqrt(sq_norm)))
    return tf.stack(norms)


def _sq(values):
    return tf.reduce_sum(tf.square(values))
