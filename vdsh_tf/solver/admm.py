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

from vdsh_tf.solver import subproblems
from vdsh_tf.solver import weight_copies
from vdsh_tf.solver.records import Codes
from vdsh_tf.solver.records import Penalties as Penalties
from vdsh_tf.solver.records import SampleState
from vdsh_tf.solver.records import Sums
from vdsh_tf.solver.records import Trace
from vdsh_tf.solver.records import Weights
from vdsh_tf.solver.weight_copies import SampleMatrix


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
    weights, state, y, penalties, solver, responses=None, along=None
):
    """Lines 5-11 for a batch of samples: codes, duals, weight moves.

    Args:
        weights: Weights.
        state: SampleState of the batch.
        y: [batch, C], label vectors.
        penalties: Penalties.
        solver: config.Solver, of which `code_steps`, `shared_step`,
            `keep_error` and `jacobi` count here; `jacobi` only for a fresh
            state that ends with this step.
        responses: per-layer pre-activations that come with a fresh state,
            whose duals are zero.
        along: for each layer the `weight_copies.directions` of its inputs,
            when gamma's term has a metric; needs `jacobi`.

    Returns:
        The batch's new SampleState, its Sums and a Trace.
    """
    fresh = state.a is None
    margin = _margin(weights, y, penalties)
    codes = _move_codes(
        weights, state, y, penalties.beta, solver, responses, margin
    )
    # Line 11. Once the codes are fixed, no layer waits for another.
    x = state.z if solver.jacobi else codes.z
    if fresh:
        # A fresh copy is its own centre: its answers are known.
        answers, lag = codes.answers, codes.lag
    else:
        answers, lag = _ask_centers(weights, state, codes)
    along = along or x[:-1]
    a = _solve_copies(x, along, lag, answers, penalties, margin)

    prev_a = tuple(_zeros_like(a)) if fresh else state.a
    new = SampleState(codes.z, codes.u, tuple(a), state.z, prev_a)
    return new, _sums(along, a, codes.z[-1], y), _trace(codes, penalties.beta)


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


def _move_codes(weights, state, y, beta, solver, responses, margin):
    """Lines 5-9, from the top down, as `Codes`."""
    fresh = state.a is None
    top = len(weights.theta) - 1
    copies = _copies(weights, state)
    if not fresh:
        responses = _answers(copies, state.z)
    f = [None, *map(tf.nn.relu, responses[1:])]
    z, u, gap = list(state.z), list(state.u), [None] * (top + 1)
    answers, lag = list(responses), [None] * (top + 1)

    # Lines 5-6. The classification error enters at the top...
    center = f[top] if fresh else f[top] - u[top]
    move = subproblems.solve_top_code(center, y, weights.classifier, beta)
    z[top] = center + move
    gap[top] = move if fresh else z[top] - f[top]
    u[top] = gap[top] if fresh else u[top] + gap[top]

    # Lines 8-9. ...and is handed down, one layer at a time.
    for m in range(top - 1, 0, -1):
        if fresh:
            # The code sits at its centre: the response above is known.
            center, above = f[m], responses[m + 1]
            lag[m + 1] = _fresh_lag(above, gap[m + 1])
        else:
            center = f[m] - u[m]
            above = copies[m + 1].matvec(center)
            lag[m + 1] = z[m + 1] + u[m + 1] - above
        move, answer = subproblems.solve_hidden_code(
            lag[m + 1], copies[m + 1], f[m] > subproblems.KINK, above,
            steps=solver.code_steps, shared=solver.shared_step,
            margin=margin if m + 1 == top else None,
            keep_error=solver.keep_error,
        )  # fmt: skip
        z[m] = center + move
        gap[m] = move if fresh else z[m] - f[m]
        u[m] = gap[m] if fresh else u[m] + gap[m]
        if not solver.jacobi:
            answers[m + 1] = above + answer
            lag[m + 1] -= answer
    if fresh:
        lag[1] = _fresh_lag(responses[1], gap[1])
    return Codes(f[top], *map(tuple, (z, u, gap, answers, lag)))


def _answers(matrices, z):
    """What each sample's matrices of layers 1 to M make of its codes."""
    return [None] + [
        matrices[m].matvec(z[m - 1]) for m in range(1, len(matrices))
    ]


def _ask_centers(weights, state, codes):
    """Answers and lags of the centres of line 11, for the moved codes."""
    centers = [None] + [
        weight_copies.center_of(
            weights.theta[m], weights.prev_theta[m],
            state.z[m - 1], state.a[m],
        )
        for m in range(1, len(weights.theta))
    ]  # fmt: skip
    answers = _answers(centers, codes.z)
    lag = [None] + [
        codes.z[m] + codes.u[m] - answers[m] for m in range(1, len(centers))
    ]
    return answers, lag


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


def _trace(codes, beta):
    def mean_norms(rows):
        squares = [subproblems.row_sum(tf.square(r)) for r in rows[1:]]
        return tf.stack([tf.reduce_mean(tf.sqrt(s)) for s in squares])

    residual = mean_norms(codes.gap)
    # A fresh dual is the residual itself.
    same = codes.u[-1] is codes.gap[-1]
    dual = residual if same else mean_norms(codes.u)
    return Trace(codes.embedding, residual, beta * dual)


def _zeros_like(values):
    return [v if v is None else tf.zeros_like(v) for v in values]
