"""The four argmins of Algorithm 1. Pure functions; dtype follows the input."""

from typing import NamedTuple

import tensorflow as tf

# A solved weight copy puts its response exactly on the ReLU kink; rounding
# must not decide whether such a unit counts as active.
KINK = 1e-6

# Least weight of staying at the centre, beside a weight of 1 for the target.
LEAST_STAY = 1e-3


def row_sum(x):
    """Sums of rows: [batch, D] -> [batch, 1].

    A product with ones: XLA must keep the order of a sum and adds its terms
    one by one, but runs a product at full speed.
    """
    return tf.matmul(x, tf.ones([x.shape[1], 1], x.dtype))


def solve_top_code(center, y, classifier, beta):
    """Pulls the top code towards what classifies well (line 5).

    Minimises over z, for every sample,

        1/2 |classifier^T z - y|^2 + beta/2 |z - center|^2,

    a ridge problem whose matrix all samples share. With
    W (W^T W + beta)^-1 = (W W^T + beta)^-1 W  only the smaller of a C x C and
    a K x K matrix is factored.

    Args:
        center: [batch, K], f - u of the code layer.
        y: [batch, C], label vectors.
        classifier: [K, C].
        beta: scalar > 0.

    Returns:
        move: [batch, K], z - center. The difference is never taken in
            numbers.
    """
    bits, classes = classifier.shape
    lag = y - tf.matmul(center, classifier)
    if classes <= bits:
        gram = tf.matmul(classifier, classifier, transpose_a=True)
        lag = _ridge_solve(gram, beta, lag)
        return tf.matmul(lag, classifier, transpose_b=True)
    gram = tf.matmul(classifier, classifier, transpose_b=True)
    return _ridge_solve(
        gram, beta, tf.matmul(lag, classifier, transpose_b=True)
    )


def _ridge_solve(gram, ridge, rows):
    """(gram + ridge I)^-1 on each row."""
    gram += ridge * tf.eye(gram.shape[0], dtype=gram.dtype)
    chol = tf.linalg.cholesky(gram)
    return tf.transpose(tf.linalg.cholesky_solve(chol, tf.transpose(rows)))


def wanted_bits(y, classifier):
    """The code that the classifier asks for: [batch, K] of -1, 0, +1.

    A bit should be on for a sample whose labels weigh it more than labels do
    on average, off when they weigh it less, and is free (0) without labels.
    Classes that the classifier tells apart get different codes, and about
    half of the classes are on either side of every bit.
    """
    own = tf.matmul(y, classifier, transpose_b=True)
    average = tf.reduce_mean(classifier, axis=1)
    count = tf.reduce_sum(y, axis=1, keepdims=True)
    return tf.sign(own - count * average)


class Margin(NamedTuple):
    """Keeps the code layer's responses s away from the threshold 0.

    Adds  weight/2 |max(0, size - wanted s)|^2  to the objective of each
    sample. Without it nothing tells a bit that is off how far below zero to
    stay, and bits flip between items of one class.

    Attributes:
        wanted: [batch, K] of -1, 0, +1.
        size: scalar > 0, the distance to keep.
        weight: scalar > 0, in units of beta.
    """

    wanted: tf.Tensor
    size: float
    weight: float

    def gap(self, response):
        """[batch, K] >= 0: how far each response is from its margin."""
        return tf.abs(self.wanted) * tf.nn.relu(
            self.size - self.wanted * response
        )


def solve_hidden_code(
    lag, copy, active, response,
    steps=1, margin=None, shared=False, keep_error=False,
):  # fmt: skip
    """Hands the error of layer m+1 down to the code of layer m (line 8).

    Lowers over z, for every sample,

        |z - center|^2 + |target - relu(copy z)|^2

    (and the margin's term, when layer m+1 is the code layer and has one) by
    sub-gradient steps from `center`, where the first term is at its
    minimum. Each step is an exact line search on the current linear piece.
    Only units that are active below move: a ReLU cannot answer with anything
    but zero elsewhere, and the error put there would be lost to all layers
    underneath. Center and target, f_m - u_m and z_{m+1} + u_{m+1}, are not
    needed: moves far smaller than a code keep all their digits.

    Args:
        lag: [batch, D_{m+1}], target - response.
        copy: SampleMatrix of layer m+1.
        active: [batch, D_m] bool, whether f_m is active.
        response: [batch, D_{m+1}], copy applied to the centre.
        steps: number of sub-gradient steps; two matmuls each.
        margin: Margin of layer m+1, or None.
        shared: whether all samples of the batch take one step length, which
            minimises the sum of their problems. A sample's own length
            depends on how hard it pulls and so weighs samples against each
            other; a shared one keeps the direction of their sum.
        keep_error: whether the first term has the weight that makes the move
            half as long as the error that it answers, or as long as a weight
            of `LEAST_STAY` lets it be; for one step.

    Returns:
        move: [batch, D_m], z - center.
        answer: [batch, D_{m+1}], copy applied to `move`.
    """
    moved, answer, stay = 0.0, 0.0, 1.0
    for step in range(steps):
        now = response + answer
        on = now > KINK
        error = tf.where(on, answer - lag, 0.0)
        if margin is not None:
            gap = margin.gap(now)
            error -= margin.weight * margin.wanted * gap
        g = copy.rmatvec(error)
        if step > 0:
            g += moved
        g = tf.where(active, g, 0.0)
        bent = copy.matvec(g)
        sq_bent = tf.square(bent)
        bend = row_sum(tf.where(on, sq_bent, 0.0))
        if margin is not None:
            bend += margin.weight * row_sum(tf.where(gap > 0, sq_bent, 0.0))
        sq = row_sum(tf.square(g))
        if shared:
            sq, bend = tf.reduce_sum(sq), tf.reduce_sum(bend)
        if keep_error:
            stay = _stay(error, sq, bend, shared)
        length = tf.math.divide_no_nan(sq, stay * sq + bend)
        moved -= length * g
        answer -= length * bent
    return moved, answer


def _stay(error, sq, bend, shared):
    """Weight of |z - center|^2 for which a step g moves by |error| / 2."""
    sq_error = row_sum(tf.square(error))
    if shared:
        sq_error = tf.reduce_sum(sq_error)
    wanted = 2.0 * tf.sqrt(tf.math.divide_no_nan(sq, sq_error))
    return tf.maximum(wanted - tf.math.divide_no_nan(bend, sq), LEAST_STAY)


def solve_weight_copy(sq_norm, lag, response, beta, gamma):
    """Moves each sample's copy of a layer towards its target (line 11).

    For every sample and unit j, minimises over the weight column t_j

        beta (target_j - relu(t_j . x))^2 + gamma |t_j - p_j|^2.

    The first term sees t_j only through s = t_j . x, so the minimiser moves
    the centre p_j along x alone, and s solves a scalar problem with one
    candidate on each side of the ReLU kink. With r = p_j . x, rho = gamma/|x|^2
    and share = beta / (beta + rho), the candidates are r + share (target - r)
    and min(r, 0); for r <= 0 they cost beta (1 - share) (target - r)^2 and
    beta target^2, which says which is better without computing either. For
    r > 0 the first is better, or both are at the kink.

    Args:
        sq_norm: [batch, 1], |x|^2 of the layer's input x = z_{m-1}; with a
            metric M in the second term, x . M^-1 x.
        lag: [batch, D_out], target - response, the target being z_m + u_m.
        response: [batch, D_out], p x: what the centre answers to x.
        beta, gamma: scalars > 0.

    Returns:
        a: [batch, D_out], such that the minimiser is p + x a^T (with a metric
            p + M^-1 x a^T); zero for a sample whose x is zero.
    """
    rho = tf.math.divide_no_nan(gamma, sq_norm)
    share = beta / (beta + rho)
    # Above the kink the best move is `share * lag`, but not beyond the kink.
    on = tf.maximum(share * lag, -response)
    off = -tf.nn.relu(response)
    on_costs_less = tf.sqrt(1.0 - share) * lag <= response + lag
    move = tf.where(on_costs_less, on, off)
    return move * tf.math.reciprocal_no_nan(sq_norm)


def solve_code_copy(sq_norm, lag, response, beta, gamma, margin):
    """`solve_weight_copy` for a code layer with a margin.

    The scalar problem of unit j gains a term and a kink,

        beta (target - relu(s))^2 + beta weight max(0, size - wanted s)^2
        + gamma / |x|^2 (s - response)^2,

    and is quadratic below, between and above the kinks 0 and wanted * size.
    The minimiser is the best of the three pieces' own.
    """
    target = response + lag
    rho = tf.math.divide_no_nan(gamma, sq_norm)
    weight = beta * margin.weight

    def cost(s):
        fit = beta * tf.square(target - tf.nn.relu(s))
        hinge = weight * tf.square(margin.gap(s))
        return fit + hinge + rho * tf.square(s - response)

    def stationary(relu_on, hinge_on):
        top = beta * relu_on * target + weight * hinge_on * edge
        bottom = beta * relu_on + weight * hinge_on + rho
        return (top + rho * response) / bottom

    edge = margin.wanted * margin.size
    low, high = tf.minimum(edge, 0), tf.maximum(edge, 0)
    up, down = tf.nn.relu(margin.wanted), tf.nn.relu(-margin.wanted)
    s = tf.minimum(stationary(0.0, up), low)
    for other in (
        tf.clip_by_value(stationary(up, up + down), low, high),
        tf.maximum(stationary(1.0, down), high),
    ):
        s = tf.where(cost(other) <= cost(s), other, s)
    return tf.math.divide_no_nan(s - response, sq_norm)


def solve_classifier(zz, zy, alpha_w):
    """The ridge classifier of all top codes, from two sums (line 14).

    Minimises  alpha_w/2 |W|^2 + 1/2 sum_i |W^T z_i - y_i|^2  over W.

    Args:
        zz: [K, K], sum_i z_i z_i^T.
        zy: [K, C], sum_i z_i y_i^T.
        alpha_w: scalar > 0.

    Returns:
        classifier: [K, C].
    """
    gram = zz + alpha_w * tf.eye(zz.shape[0], dtype=zz.dtype)
    return tf.linalg.cholesky_solve(tf.linalg.cholesky(gram), zy)


def classifier_gradient(classifier, zz, zy, count, alpha_w):
    """Gradient of line 14's objective, a sample: what an optimizer follows."""
    total = tf.matmul(zz, classifier) - zy + alpha_w * classifier
    return total / count
