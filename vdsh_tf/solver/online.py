"""The online step: Algorithm 1 on one batch, from a forward start.

With z = f and u = v = 0, the centre of every sub-problem and each layer's
response to it are known from the forward pass, and a weight copy is theta
itself. Errors and moves are carried themselves, never as the difference of
two codes: after many layers they may be 1e-9 of a code.
"""

import dataclasses

import tensorflow as tf

from vdsh_tf.solver import consensus
from vdsh_tf.solver import full
from vdsh_tf.solver import objective
from vdsh_tf.solver import subproblems
from vdsh_tf.solver import weight_copies
from vdsh_tf.solver.records import Trace
from vdsh_tf.solver.records import Update
from vdsh_tf.solver.records import numbered


def step(theta, classifier, x, y, solver, exact=False, weight=None) -> Update:
    """Proposes an update of all weights from one batch.

    Args:
        theta: per-layer kernels.
        classifier: [K, C].
        x: [batch, d], unit-length rows.
        y: [batch, C], label vectors.
        solver: config.Solver.
        exact: whether the classifier is solved for (line 14) or gets the
            gradient of that problem, for an optimizer.
        weight: [batch] sample weights, or None; a weight of 2 is the sample
            twice.
    """
    if weight is not None:
        weight = tf.cast(weight, y.dtype)[:, None]
    if solver.preserve_error_norm is None:
        # Lengths matter where no optimizer rescales the moves.
        preserve = not exact and solver.jacobi and solver.code_steps == 1
        solver = dataclasses.replace(solver, preserve_error_norm=preserve)
    if solver.sweeps > 1:
        moves, sums, trace = _several_sweeps(
            theta, classifier, x, y, solver, weight
        )
    else:
        moves, sums, trace = _one_sweep(theta, classifier, x, y, solver, weight)
    line_14 = (
        consensus.classifier_move if exact else consensus.classifier_gradient
    )
    return Update(moves, line_14(classifier, sums, solver), trace)


def _one_sweep(theta, classifier, x, y, solver, weight):
    """Lines 5-12 once: moves of theta, Sums, Trace."""
    z, response = _forward(theta, x)
    inputs = [z[m] for m in range(len(theta))]
    directions, sq_norms = _directions(inputs, solver, weight)
    gamma = _gamma(sq_norms, solver, weight)
    margin = subproblems.margin_of(y, classifier, solver)
    pass_down = _hand_down if solver.preserve_error_norm else _search_down
    move, error, squares = pass_down(
        theta, classifier, z, response, y, solver, margin, weight
    )

    if not solver.jacobi:
        inputs = [x, *(z[m] + move[m] for m in range(1, len(theta)))]
        directions, sq_norms = _directions(inputs, solver, weight)

    # Line 11. Once the codes are fixed, no layer waits for another.
    a = [
        subproblems.solve_copy(
            sq_norms[m - 1],
            error[m],
            response[m],
            solver.beta,
            gamma[m - 1],
            margin=margin if m == len(theta) else None,
        )
        for m in response
    ]

    top = len(theta)
    sums = consensus.sums_of(directions, a, z[top] + move[top], y, weight)
    moves = consensus.theta_moves(theta, sums, gamma, solver)
    residual = objective.mean_lengths([squares[m] for m in response])
    # The dual u_m is the residual z_m - f_m itself.
    return moves, sums, Trace(z[top], residual, solver.beta * residual)


def _hand_down(theta, classifier, z, response, y, solver, margin, weight):
    """Lines 5-9, from the top down, each pull as long as the one above.

    Returns:
        move: by layer, z_m - f_m.
        error: by layer, target - response, the target being f + 2 move.
        squares: by layer, |move|^2 of each sample.
    """
    kernels, top = numbered(theta), len(theta)
    move, error, squares = {}, {}, {}

    # Lines 5-6. The classification error enters at the top...
    move[top] = subproblems.solve_top_code(z[top], y, classifier, solver.beta)
    error[top] = _error(response[top], move[top])
    squares[top] = subproblems.row_sum(tf.square(move[top]))
    pull = subproblems.pull_of(error[top], response[top], margin)

    # Lines 8-9. ...and is handed down, one layer at a time.
    for m in range(top - 1, 0, -1):
        pull = subproblems.hand_down(
            pull,
            weight_copies.SampleMatrix(kernels[m + 1]),
            z[m] > subproblems.KINK,
            solver.shared_step,
            weight,
        )
        move[m], squares[m] = pull.value(), pull.squares
        error[m] = _error(response[m], move[m])
    return move, error, squares


def _search_down(theta, classifier, z, response, y, solver, margin, weight):
    """Lines 5-9 with a line search for each layer.

    In the paper's order (not `jacobi`) `response` and `error` are left as
    line 11 meets them, at the moved code of the layer below.

    Returns:
        As `_hand_down`.
    """
    kernels, top = numbered(theta), len(theta)
    move, error = {}, {}
    move[top] = subproblems.solve_top_code(z[top], y, classifier, solver.beta)
    for m in range(top - 1, 0, -1):
        error[m + 1] = _error(response[m + 1], move[m + 1])
        move[m], change = subproblems.solve_hidden_code(
            error[m + 1],
            weight_copies.SampleMatrix(kernels[m + 1]),
            z[m] > subproblems.KINK,
            response[m + 1],
            solver,
            margin if m + 1 == top else None,
            weight,
        )
        if not solver.jacobi:
            response[m + 1] += change
            error[m + 1] -= change
    error[1] = _error(response[1], move[1])
    squares = {m: subproblems.row_sum(tf.square(move[m])) for m in move}
    return move, error, squares


def _several_sweeps(theta, classifier, x, y, solver, weight):
    """Algorithm 1 on the batch alone, `sweeps` times."""
    weights = full.start_weights(theta, classifier)
    state = full.start_samples(theta, x)
    embedding = state.z[-1]
    _, sq_norms = _directions([x, *state.z[:-1]], solver, weight)
    gamma = _gamma(sq_norms, solver, weight)
    found = []
    for _ in range(solver.sweeps):
        state, sums, trace = full.sample_step(
            weights, x, state, y, gamma, solver, weight
        )
        weights, moves = full.consensus_step(weights, sums, gamma, solver)
        found.append(moves)
    total = tuple(map(tf.add_n, zip(*found, strict=True)))
    return total, sums, trace._replace(embedding=embedding)


def _forward(theta, x):
    """Codes {0: x, 1: f_1, ...} and responses {1: ..., M: ...}."""
    z, response = {0: x}, {}
    for m, kernel in numbered(theta).items():
        response[m] = tf.matmul(z[m - 1], kernel)
        z[m] = tf.nn.relu(response[m])
    return z, response


def _directions(inputs, solver, weight):
    """Along which weight copies move, and x . direction of each sample."""
    directions = inputs
    if solver.mean_damping:
        directions = [
            weight_copies.directions(x, solver.mean_damping, weight)
            for x in inputs
        ]
    pairs = zip(inputs, directions, strict=True)
    return directions, [subproblems.row_sum(x * d) for x, d in pairs]


def _gamma(sq_norms, solver, weight):
    means = list(map(tf.reduce_mean, sq_norms))
    if weight is not None:
        count = tf.reduce_sum(weight)
        means = [subproblems.total(s, weight) / count for s in sq_norms]
    return consensus.relative_gamma(means, solver)


def _error(response, move):
    """target - response of a layer whose target is f + 2 move."""
    return 2.0 * move - tf.minimum(response, 0.0)
