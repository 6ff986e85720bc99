"""Eq. 4, Eq. 9 and the norms that show convergence. Pure functions."""

import tensorflow as tf

from vdsh_tf.solver import weight_copies


def objective(embedding, y, theta, classifier, alpha_theta, alpha_w):
    """Eq. 4, the training objective.

        1/2 sum_i |classifier^T F(x_i) - y_i|^2
        + alpha_theta/2 sum_m |theta_m|^2 + alpha_w/2 |classifier|^2

    Args:
        embedding: [batch, K], F(x).
        y: [batch, C], label vectors.
        theta: per-layer kernels, entry 0 unused.
        classifier: [K, C].
        alpha_theta, alpha_w: scalars >= 0.
    """
    error = tf.matmul(embedding, classifier) - y
    total = 0.5 * _sq(error) + 0.5 * alpha_w * _sq(classifier)
    if alpha_theta:
        total += 0.5 * alpha_theta * tf.add_n([_sq(t) for t in theta[1:]])
    return total


def augmented_lagrangian(weights, state, y, penalties):
    """Eq. 9 after an iteration, with the weight copies in low-rank form.

    Args:
        weights: admm.Weights after `consensus_step`.
        state: admm.SampleState after the `sample_step` before it.
        y: [batch, C], label vectors.
        penalties: admm.Penalties.
    """
    z, u = state.z, state.u
    total = objective(
        z[-1], y, weights.theta, weights.classifier,
        penalties.alpha_theta, penalties.alpha_w,
    )  # fmt: skip
    for m in range(1, len(weights.theta)):
        moves = (z[m - 1], state.a[m], state.prev_z[m - 1], state.prev_a[m])
        # Line 12 has made theta(k-1) of line 11 the previous value.
        copy = weight_copies.copy_of(
            weights.prev_theta[m], weights.prev2_theta[m], *moves
        )
        gap = weight_copies.gap_of(
            weights.theta[m], weights.prev_theta[m], weights.prev2_theta[m],
            *moves,
        )  # fmt: skip
        f = tf.nn.relu(copy.matvec(z[m - 1]))
        total += 0.5 * penalties.beta * _sq(z[m] - f + u[m])
        total += 0.5 * penalties.gamma[m] * tf.reduce_sum(gap.squared_norm())
    return total


def weight_dual_norms(weights, state, penalties):
    """Mean over samples of gamma |v_{i,m}|, for each layer: [M]."""
    norms = []
    for m in range(1, len(weights.theta)):
        dual = weight_copies.dual_of(
            weights.theta[m], weights.prev_theta[m],
            state.z[m - 1], state.a[m],
        )  # fmt: skip
        sq_norm = tf.maximum(dual.squared_norm(), 0)
        norms.append(penalties.gamma[m] * tf.reduce_mean(tf.sqrt(sq_norm)))
    return tf.stack(norms)


def _sq(values):
    return tf.reduce_sum(tf.square(values))
