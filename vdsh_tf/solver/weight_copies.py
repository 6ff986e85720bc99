"""Per-sample weight copies and their duals, kept in exact low-rank form.

Algorithm 1 gives every sample i its own copy theta~_i of each layer and a dual
v_i of the same size. Neither is ever stored. With x_i = z_{i,m-1}, kernels of
shape [D_in, D_out] and k counting iterations:

    line 11  theta~_i(k) = theta(k-1) + v_i(k-1) + x_i(k) a_i(k)^T
             The fit term sees theta~_i only through its response to x_i, so
             the minimiser leaves the centre theta + v_i along x_i alone.
    line 12  theta(k) = gamma / (gamma N + alpha) sum_i (theta~_i - v_i)
                      = gamma / (gamma N + alpha) (N theta(k-1)
                                                   + sum_i x_i a_i^T)
             The duals cancel: the consensus is one matrix product.
    line 13  v_i(k) = v_i(k-1) + theta(k) - theta~_i(k)
                    = theta(k) - theta(k-1) - x_i(k) a_i(k)^T
             The old dual cancels too: nothing accumulates.

Hence a copy, a dual and a centre are each one matrix that all samples share
plus at most two rank-one terms of the sample's own.
"""

from typing import NamedTuple

import tensorflow as tf


class RankOne(NamedTuple):
    """The matrix `scale * x_i a_i^T` of each sample i.

    Attributes:
        scale: Python float.
        x: [batch, D_in].
        a: [batch, D_out].
    """

    scale: float
    x: tf.Tensor
    a: tf.Tensor


class SampleMatrix(NamedTuple):
    """One matrix per sample: a shared kernel plus rank-one terms.

    Attributes:
        shared: [D_in, D_out].
        terms: RankOne terms; empty when every sample has the shared matrix.
    """

    shared: tf.Tensor
    terms: tuple[RankOne, ...] = ()

    def matvec(self, x):
        """Applies each sample's matrix: [batch, D_in] -> [batch, D_out]."""
        out = tf.matmul(x, self.shared)
        for term in self.terms:
            out += term.scale * _dot(x, term.x) * term.a
        return out

    def rmatvec(self, g):
        """Applies the transposes: [batch, D_out] -> [batch, D_in]."""
        out = tf.matmul(g, self.shared, transpose_b=True)
        for term in self.terms:
            out += term.scale * _dot(g, term.a) * term.x
        return out

    def squared_norm(self):
        """Squared Frobenius norm of each sample's matrix: [batch]."""
        total = tf.reduce_sum(tf.square(self.shared))
        for i, term in enumerate(self.terms):
            cross = _dot(tf.matmul(term.x, self.shared), term.a)
            total += 2.0 * term.scale * cross[:, 0]
            for other in self.terms[: i + 1]:
                times = 1.0 if other is term else 2.0
                inner = _dot(term.x, other.x) * _dot(term.a, other.a)
                total += times * term.scale * other.scale * inner[:, 0]
        return total


def copy_of(prev_theta, prev2_theta, x, a, prev_x, prev_a):
    """theta~_i(k), as line 11 of iteration k left it.

    Args:
        prev_theta, prev2_theta: theta(k-1) and theta(k-2).
        x, a: the rank-one move of iteration k.
        prev_x, prev_a: that of iteration k-1, which v_i(k-1) carries.
    """
    shared = 2.0 * prev_theta - prev2_theta
    return SampleMatrix(
        shared, (RankOne(1.0, x, a), RankOne(-1.0, prev_x, prev_a))
    )


def dual_of(theta, prev_theta, x, a):
    """v_i(k), as line 13 of iteration k left it."""
    return SampleMatrix(theta - prev_theta, (RankOne(-1.0, x, a),))


def center_of(theta, prev_theta, x, a):
    """theta(k) + v_i(k), where line 11 of iteration k+1 starts from."""
    return SampleMatrix(2.0 * theta - prev_theta, (RankOne(-1.0, x, a),))


def violation_of(theta, prev_theta, prev2_theta, x, a, prev_x, prev_a):
    """theta - theta~_i + v_i after iteration k: the gamma term of Eq. 9.

    Line 13 says theta(k) - theta~_i(k) = v_i(k) - v_i(k-1), so this is
    2 v_i(k) - v_i(k-1).
    """
    shared = 2.0 * (theta - prev_theta) - (prev_theta - prev2_theta)
    return SampleMatrix(
        shared, (RankOne(-2.0, x, a), RankOne(1.0, prev_x, prev_a))
    )


def directions(x, damping, weight=None, reduce=None):
    """M^-1 x_i: directions in which copies move under a metric M.

    With |theta~_i - theta|_M for |theta~_i - theta| in line 11, a copy leaves
    its centre along M^-1 x_i, and |x_i|^2 becomes x_i . M^-1 x_i; line 12
    averages as before. M is the identity plus 1 / `damping` times the square
    of the mean input, in units of an input's mean square: moves along what
    all samples share are penalised, those along what tells them apart are
    not.

    Args:
        x: [batch, D_in].
        damping: scalar > 0.
        weight: [batch, 1] sample weights of the means, or None.
        reduce: see `groups.Group`, if the batch is part of a larger one.

    Returns:
        [batch, D_in].
    """
    if weight is None:
        weight = tf.ones_like(x[:, :1])
    if reduce is None:
        weight = weight / tf.reduce_mean(weight)
        mean = tf.reduce_mean(x * weight, axis=0, keepdims=True)
        square = tf.reduce_mean(tf.square(x) * weight)
    else:
        mean, square = _common_means(x, weight, reduce)
    unit = tf.maximum(square, 1e-30)
    penalised = mean / (damping * unit + tf.reduce_sum(tf.square(mean)))
    return x - tf.matmul(x, mean, transpose_b=True) * penalised


def _common_means(x, weight, reduce):
    """Mean row [1, D_in] and mean square of all workers' rows."""
    count, row, square = reduce(
        [
            tf.reduce_sum(weight),
            tf.reduce_sum(x * weight, axis=0, keepdims=True),
            tf.reduce_sum(tf.square(x) * weight),
        ]
    )
    return row / count, square / (count * x.shape[1])


def _dot(a, b):
    return tf.reduce_sum(a * b, axis=-1, keepdims=True)
