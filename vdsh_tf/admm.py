"""Algorithm 1 of the paper as pure functions over tuples of tensors.

Z. Zhang, Y. Chen, V. Saligrama: "Efficient Training of Very Deep Neural
Networks for Supervised Hashing", CVPR 2016. Line numbers count the listing's
statements: 1-2 initialise; 5-6 top code and its dual; 8-9 hidden codes and
duals going down; 11 weight copies; 12 consensus; 13 weight duals; 14
classifier.

Layers count from 1 to M as in the paper; entry 0 of a per-layer tuple is None,
except `z[0]`, which is the input. No Keras, no variables; dtype follows the
input.
"""

import tensorflow as tf

from vdsh_tf import subproblems
from vdsh_tf import weight_copies
from vdsh_tf.admm_records import Penalties as Penalties
from vdsh_tf.admm_records import SampleState
from vdsh_tf.admm_records import Sums
from vdsh_tf.admm_records import Trace
from vdsh_tf.admm_records import Weights
from vdsh_tf.weight_copies import SampleMatrix


def start_weights(theta, classifier):
    """Weights before the first iteration (line 1)."""
    theta = tuple(theta)
    return Weights(theta, theta, theta, classifier)


def start_samples(theta, x):
    """Fresh state by a forward pass (line 2).

    Args:
        theta: per-layer kernels.
        x: [batch, d], inputs.

    Returns:
        state: SampleState with z_m = f_m and u_m = 0.
        responses: per-layer pre-activations, for `sample_step` to reuse.
    """
    z, u, responses = [x], [None], [None]
    for kernel in theta[1:]:
        responses.append(tf.matmul(z[-1], kernel))
        z.append(tf.nn.relu(responses[-1]))
        u.append(tf.zeros_like(z[-1]))
    return SampleState(tuple(z), tuple(u)), tuple(responses)


def relative_gamma(z, beta, copy_step, along=None):
    """gamma of each layer from a scale-free step.

    A weight copy closes the share  beta |x|^2 / (beta |x|^2 + gamma)  of the
    way to its target. Chooses gamma so that the share is `copy_step` at the
    mean |x|^2 of the batch.

    Args:
        z: per-layer codes, z[0] the input.
        beta: scalar > 0.
        copy_step: Python float in (0, 1).
        along: see `sample_step`.
    """
    scale = beta * (1.0 / copy_step - 1.0)
    gamma = [None]
    for x, direction in zip(z[:-1], along or z[:-1], strict=True):
        sq_norm = tf.reduce_mean(subproblems.row_sum(x * direction))
        # A batch that a layer answers with zeros leaves it alone.
        gamma.append(scale * tf.maximum(sq_norm, 1e-20))
    return tuple(gamma)


def sample_step(
    weights,
    state,
    y,
    penalties,
    responses=None,
    code_steps=1,
    shared_step=False,
    jacobi=False,
    along=None,
    keep_error=False,
):
    """Lines 5-11 for a batch of samples: codes, duals, weight moves.

    Args:
        weights: Weights.
        state: SampleState of the batch.
        y: [batch, C], label vectors.
        penalties: Penalties.
        responses: per-layer pre-activations that come with a fresh state,
            whose duals are zero.
        code_steps: sub-gradient steps a hidden code.
        shared_step: see `shared` of `subproblems.solve_hidden_code`.
        jacobi: whether line 11 sees the codes from before the step as inputs,
            not those that lines 5-8 have just moved. Only for a fresh state
            that ends with this step.
        along: for each layer the `weight_copies.directions` of its inputs,
            when gamma's term has a metric; needs `jacobi`.
        keep_error: see `subproblems.solve_hidden_code`. The weight is that
            of a beta of each layer's own.

    Returns:
        The batch's new SampleState, its Sums and a Trace.
    """
    fresh = state.a is None
    beta = penalties.beta
    top = len(weights.theta) - 1
    copies = _copies(weights, state)
    z, u = list(state.z), list(state.u)
    f, gap = [None] * (top + 1), [None] * (top + 1)
    if not fresh:
        responses = [None] + [
            copies[m].matvec(z[m - 1]) for m in range(1, top + 1)
        ]
    moved, lag = list(responses), [None] * (top + 1)
    margin = _margin(weights, y, penalties)

    # Lines 5-6. The classification error enters at the top...
    f[top] = tf.nn.relu(responses[top])
    z[top] = subproblems.solve_top_code(
        f[top], u[top], y, weights.classifier, beta
    )
    gap[top] = z[top] - f[top]
    u[top] = gap[top] if fresh else u[top] + gap[top]

    # Lines 8-9. ...and is handed down, one layer at a time.
    for m in range(top - 1, 0, -1):
        f[m] = tf.nn.relu(responses[m])
        active = f[m] > subproblems.KINK
        if fresh:
            # The code sits at its centre: the response above is known.
            center, above = f[m], responses[m + 1]
            lag[m + 1] = _fresh_lag(above, gap[m + 1])
        else:
            center = f[m] - u[m]
            above = copies[m + 1].matvec(center)
            lag[m + 1] = z[m + 1] + u[m + 1] - above
        move, answer = subproblems.solve_hidden_code(
            lag[m + 1], copies[m + 1], active, above,
            steps=code_steps, margin=margin if m + 1 == top else None,
            shared=shared_step, keep_error=keep_error,
        )  # fmt: skip
        z[m] = center + move
        gap[m] = move if fresh else z[m] - f[m]
        u[m] = gap[m] if fresh else u[m] + gap[m]
        if not jacobi:
            moved[m + 1] = above + answer
            lag[m + 1] -= answer

    # Line 11. Once the codes are fixed, no layer waits for another.
    x = state.z if jacobi else z
    if not fresh:
        centers = _centers(weights, state)
        moved = [None] + [
            centers[m].matvec(x[m - 1]) for m in range(1, top + 1)
        ]
        lag = [None] + [z[m] + u[m] - moved[m] for m in range(1, top + 1)]
    else:
        # A fresh copy is its own centre, so `moved` is the centre's answer.
        lag[1] = _fresh_lag(responses[1], gap[1])
    along = along or x[:-1]
    a = _solve_copies(x, along, lag, moved, penalties, margin)

    prev_a = tuple(_zeros_like(a)) if fresh else state.a
    new = SampleState(tuple(z), tuple(u), tuple(a), state.z, prev_a)
    return new, _sums(along, a, z[top], y), _trace(f[top], gap, u, beta)


def consensus_moves(weights, sums, penalties):
    """theta - theta+ of line 12, for each layer.

    Moves can be 1e-6 of a weight; the difference is never taken in numbers.
    """
    moves = [None]
    for kernel, outer, gamma in zip(
        weights.theta[1:], sums.outer[1:], penalties.gamma[1:], strict=True
    ):
        shrink = penalties.alpha_theta / gamma
        move = outer * (-1.0 / (sums.count + shrink))
        if penalties.alpha_theta:
            move += kernel * (shrink / (sums.count + shrink))
        moves.append(move)
    return tuple(moves)


def consensus_step(weights, sums, penalties):
    """Lines 12-14: what all samples agree on, from their sums alone.

    Line 13 needs no work: a dual follows from theta and its previous value.

    Returns:
        The new Weights, and the `consensus_moves` that led to them.
    """
    moves = consensus_moves(weights, sums, penalties)
    pairs = zip(weights.theta[1:], moves[1:], strict=True)
    theta = (None, *[kernel - move for kernel, move in pairs])
    classifier = subproblems.solve_classifier(
        sums.zz, sums.zy, penalties.alpha_w
    )
    new = Weights(theta, weights.theta, weights.prev_theta, classifier)
    return new, moves


def add_sums(left, right):
    """Sums of two batches together."""
    return tf.nest.map_structure(
        lambda a, b: None if a is None else a + b, left, right
    )


def _margin(weights, y, penalties):
    if not penalties.margin:
        return None
    wanted = subproblems.wanted_bits(y, weights.classifier)
    return subproblems.Margin(wanted, penalties.margin, penalties.margin_weight)


def _copies(weights, state):
    if state.a is None:
        return [None] + [SampleMatrix(theta) for theta in weights.theta[1:]]
    copies = [None]
    for m in range(1, len(weights.theta)):
        copies.append(
            weight_copies.copy_of(
                weights.prev_theta[m], weights.prev2_theta[m],
                state.z[m - 1], state.a[m],
                state.prev_z[m - 1], state.prev_a[m],
            )
        )  # fmt: skip
    return copies


def _centers(weights, state):
    return [None] + [
        weight_copies.center_of(
            weights.theta[m], weights.prev_theta[m],
            state.z[m - 1], state.a[m],
        )
        for m in range(1, len(weights.theta))
    ]  # fmt: skip


def _fresh_lag(response, gap):
    """target - response of a fresh layer, whose target is f + 2 gap.

    From the gap itself, which after many layers may be 1e-9 of the code:
    f + gap - f would round it away.
    """
    return 2.0 * gap - tf.minimum(response, 0.0)


def _solve_copies(x, along, lag, responses, penalties, margin):
    """Line 11 for every layer; the code layer has the margin."""
    a = [None]
    for m in range(1, len(lag)):
        copy = (
            subproblems.row_sum(x[m - 1] * along[m - 1]),
            lag[m], responses[m], penalties.beta, penalties.gamma[m],
        )  # fmt: skip
        if margin is not None and m == len(lag) - 1:
            a.append(subproblems.solve_code_copy(*copy, margin))
        else:
            a.append(subproblems.solve_weight_copy(*copy))
    return a


def _sums(along, a, top_code, y):
    outer = [None] + [
        tf.matmul(along[m - 1], a[m], transpose_a=True)
        for m in range(1, len(a))
    ]
    count = tf.cast(tf.shape(y)[0], y.dtype)
    zz = tf.matmul(top_code, top_code, transpose_a=True)
    zy = tf.matmul(top_code, y, transpose_a=True)
    return Sums(count, tuple(outer), zz, zy)


def _trace(embedding, gap, u, beta):
    def mean_norms(rows):
        squares = [subproblems.row_sum(tf.square(r)) for r in rows[1:]]
        return tf.stack([tf.reduce_mean(tf.sqrt(s)) for s in squares])

    residual = mean_norms(gap)
    # A fresh dual is the residual itself.
    dual = residual if u[-1] is gap[-1] else mean_norms(u)
    return Trace(embedding, residual, beta * dual)


def _zeros_like(values):
    return [v if v is None else tf.zeros_like(v) for v in values]
