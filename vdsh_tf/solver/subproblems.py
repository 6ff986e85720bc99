"""The four argmins of Algorithm 1. Pure functions; dtype follows the input."""

from typing import NamedTuple

import tensorflow as tf

from vdsh_tf.solver import preservation

# A solved weight copy puts its response exactly on the ReLU kink; rounding
# must not decide whether such a unit counts as active.
KINK = 1e-6


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
    error = y - tf.matmul(center, classifier)
    if classes <= bits:
        gram = tf.matmul(classifier, classifier, transpose_a=True)
        error = _ridge_solve(gram, beta, error)
        return tf.matmul(error, classifier, transpose_b=True)
    gram = tf.matmul(classifier, classifier, transpose_b=True)
    return _ridge_solve(
        gram, beta, tf.matmul(error, classifier, transpose_b=True)
    )


def _ridge_solve(gram, ridge, rows):
    """(gram + ridge I)^-1 on each row."""
    gram += ridge * tf.eye(gram.shape[0], dtype=gram.dtype)
    chol = tf.linalg.cholesky(gram)
    return tf.transpose(tf.linalg.cholesky_solve(chol, tf.transpose(rows)))


def wanted_bits(y, classifier, others=0):
    """The code that the classifier asks for: [batch, K] of -1, 0, +1.

    A bit should be on for a sample whose labels weigh it more than labels do
    on average, off when they weigh it less, and is free (0) without labels.
    Classes that the classifier tells apart get different codes, and about
    half of the classes are on either side of every bit.

    Args:
        y: [batch, C + others], label vectors, and targets of mean zero.
        classifier: [K, C + others].
        others: how many targets are not labels; their mean is zero.
    """
    own = tf.matmul(y, classifier, transpose_b=True)
    labels = y.shape[1] - others
    average = tf.reduce_mean(classifier[:, :labels], axis=1)
    count = tf.reduce_sum(y[:, :labels], axis=1, keepdims=True)
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

    def shortfall(self, response):
        """[batch, K] >= 0: by how much each response misses its margin."""
        return tf.abs(self.wanted) * tf.nn.relu(
            self.size - self.wanted * response
        )


def margin_of(y, classifier, solver) -> Margin | None:
    """The margin that the solver asks for on the code layer, if any."""
    if not solver.margin:
        return None
    wanted = wanted_bits(y, classifier, preservation.columns(solver))
    return Margin(wanted, solver.margin, solver.margin_weight)


def total(values, weight=None):
    """Sum over samples of [batch, 1] values, with weights [batch, 1] if any."""
    return tf.reduce_sum(values if weight is None else values * weight)


def error_of(response, move):
    """target - response of a layer whose target is f + 2 move."""
    return 2.0 * move - tf.minimum(response, 0.0)


def solve_hidden_code(
    error,
    copy,
    active,
    response,
    solver,
    margin=None,
    weight=None,
    reduce=None,
):
    """Hands the error of layer m+1 down to the code of layer m (line 8).

    Lowers over z, for every sample,

        |z - center|^2 + |target - relu(copy z)|^2

    (and the margin's term, when layer m+1 is the code layer and has one) by
    sub-gradient steps from `center`, where the first term is at its
    minimum. Each step is an exact line search on the current linear piece.
    Only units that are active below move: a ReLU cannot respond with anything
    but zero elsewhere, and the error put there would be lost to all layers
    underneath. Center and target, f_m - u_m and z_{m+1} + u_{m+1}, are not
    needed: moves far smaller than a code keep all their digits.

    Args:
        error: [batch, D_{m+1}], target - response.
        copy: SampleMatrix of layer m+1.
        active: [batch, D_m] bool, whether f_m is active.
        response: [batch, D_{m+1}], copy applied to the centre.
        solver: config.Solver, of which count here
            `code_steps`: number of sub-gradient steps, two matmuls each.
            `shared_step`: whether all samples of the batch take one step
            length, which minimises the sum of their problems. A sample's own
            length depends on how hard it pulls and so weighs samples against
            each other; a shared one keeps the direction of their sum.
        margin: Margin of layer m+1, or None.
        weight: [batch, 1] sample weights of a shared step, or None.
        reduce: see `groups.Group`, if the batch is part of a larger one.

    Returns:
        move: [batch, D_m], z - center.
        change: [batch, D_{m+1}], copy applied to `move`.
    """
    moved, change = 0.0, 0.0
    for step in range(solver.code_steps):
        now = response + change
        on = now > KINK
        misfit = tf.where(on, change - error, 0.0)
        if margin is not None:
            shortfall = margin.shortfall(now)
            misfit -= margin.weight * margin.wanted * shortfall
        g = copy.rmatvec(misfit)
        if step > 0:
            g += moved
        g = tf.where(active, g, 0.0)
        bent = copy.matvec(g)
        sq_bent = tf.square(bent)
        bend = row_sum(tf.where(on, sq_bent, 0.0))
        if margin is not None:
            short = tf.where(shortfall > 0, sq_bent, 0.0)
            bend += margin.weight * row_sum(short)
        sq = row_sum(tf.square(g))
        if solver.shared_step:
            sq, bend = total(sq, weight), total(bend, weight)
            if reduce is not None:
                sq, bend = reduce([sq, bend])
        length = tf.math.divide_no_nan(sq, sq + bend)
        moved -= length * g
        change -= length * bent
    return moved, change


def solve_copy(sq_norm, error, response, beta, gamma, margin=None):
    """Line 11 for one layer; the code layer may have a margin."""
    copy = (sq_norm, error, response, beta, gamma)
    if margin is None:
        return solve_weight_copy(*copy)
    return solve_code_copy(*copy, margin)


def solve_weight_copy(sq_norm, error, response, beta, gamma):
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
        error: [batch, D_out], target - response, the target being z_m + u_m.
        response: [batch, D_out], p x: the centre's response to x.
        beta, gamma: scalars > 0.

    Returns:
        a: [batch, D_out], such that the minimiser is p + x a^T (with a metric
            p + M^-1 x a^T); zero for a sample whose x is zero.
    """
    rho = tf.math.divide_no_nan(gamma, sq_norm)
    share = beta / (beta + rho)
    # Above the kink the best move is `share * error`, but not beyond the kink.
    on = tf.maximum(share * error, -response)
    off = -tf.nn.relu(response)
    on_costs_less = tf.sqrt(1.0 - share) * error <= response + error
    move = tf.where(on_costs_less, on, off)
    return move * tf.math.reciprocal_no_nan(sq_norm)


def solve_code_copy(sq_norm, error, response, beta, gamma, margin):
    """`solve_weight_copy` for a code layer with a margin.

    The scalar problem of unit j gains a term and a kink,

        beta (target - relu(s))^2 + beta weight max(0, size - wanted s)^2
        + gamma / |x|^2 (s - response)^2,

    and is quadratic below, between and above the kinks 0 and wanted * size.
    The minimiser is the best of the three pieces' own.
    """
    target = response + error
    rho = tf.math.divide_no_nan(gamma, sq_norm)
    weight = beta * margin.weight

    def cost(s):
        fit = beta * tf.square(target - tf.nn.relu(s))
        hinge = weight * tf.square(margin.shortfall(s))
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
