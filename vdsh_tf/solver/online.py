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
from vdsh_tf.solver import groups
from vdsh_tf.solver import objective
from vdsh_tf.solver import pulls
from vdsh_tf.solver import subproblems
from vdsh_tf.solver import weight_copies
from vdsh_tf.solver.records import Trace
from vdsh_tf.solver.records import Update
from vdsh_tf.solver.records import numbered


def step(
    theta, classifier, x, y, solver, exact=False, weight=None, group=None
) -> Update:
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
        group: groups.Group, if the batch is a worker's part of a larger one.
    """
    if weight is not None:
        weight = tf.cast(weight, y.dtype)[:, None]
    sweep = _several_sweeps if solver.sweeps > 1 else _one_sweep
    moves, sums, trace = sweep(
        theta, classifier, x, y, with_lengths(solver, exact), weight, group
    )
    return update(classifier, moves, sums, trace, solver, exact)


def with_lengths(solver, exact):
    """The solver, with a decision on whether errors keep their length."""
    if solver.preserve_error_norm is not None:
        return solver
    # Lengths matter where no optimizer rescales the moves.
    preserve = not exact and solver.jacobi and solver.code_steps == 1
    return dataclasses.replace(solver, preserve_error_norm=preserve)


def update(classifier, moves, sums, trace, solver, exact) -> Update:
    """Moves of theta with that of the classifier (line 14)."""
    line_14 = (
        consensus.classifier_move if exact else consensus.classifier_gradient
    )
    return Update(moves, line_14(classifier, sums, solver), trace)


def _one_sweep(theta, classifier, x, y, solver, weight, group):
    """Lines 5-12 once: moves of theta, Sums, Trace."""
    reduce = None if group is None else group.reduce
    z, response = forward(theta, x)
    inputs = [z[m] for m in range(len(theta))]
    directions, sq_norms = _directions(inputs, solver, weight, reduce)
    gamma = _gamma(sq_norms, solver, weight, reduce)
    margin = subproblems.margin_of(y, classifier, solver)
    codes = (theta, classifier, z, response, y, solver, margin)

    if solver.preserve_error_norm:
        rates = pulls.copy_rates(sq_norms, solver.beta, gamma)
        move, handed = pulls.hand_down(*codes, rates, weight, reduce)
        squares = pulls.squares_of(move, handed)
        a, lengths = pulls.weight_moves(handed)
        copy = (sq_norms[-1], response[len(theta)], gamma[-1])
        a.append(pulls.code_move(*copy, move, solver, margin))
    else:
        moves, errors = _search_down(*codes, weight, reduce)
        move, lengths = moves[len(theta)], None
        squares = [subproblems.row_sum(tf.square(moves[m])) for m in response]
        if not solver.jacobi:
            inputs = [x, *(z[m] + moves[m] for m in range(1, len(theta)))]
            directions, sq_norms = _directions(inputs, solver, weight, reduce)
        a = _weight_moves(sq_norms, errors, response, gamma, solver, margin)

    top_code = z[len(theta)] + move
    sums = consensus.sums_of(directions, a, top_code, y, weight, lengths)
    residual = objective.mean_lengths(squares)
    # The dual u_m is the residual z_m - f_m itself.
    trace = Trace(z[len(theta)], residual, solver.beta * residual)
    if group is not None:
        sums, trace, _ = groups.close(group, sums, trace, tf.shape(y)[0])
    return consensus.theta_moves(theta, sums, gamma, solver), sums, trace


def _weight_moves(sq_norms, error, response, gamma, solver, margin):
    """Line 11. Once the codes are fixed, no layer waits for another.

    Args:
        sq_norms: x . direction of each sample, for each layer.
        error, response: by layer.
        gamma: one scalar per layer.
        solver: config.Solver.
        margin: Margin of the code layer, or None.

    Returns:
        a, for each layer.
    """
    return [
        subproblems.solve_copy(
            sq_norms[m - 1],
            error[m],
            response[m],
            solver.beta,
            gamma[m - 1],
            margin=margin if m == len(response) else None,
        )
        for m in response
    ]


def _search_down(
    theta, classifier, z, response, y, solver, margin, weight, reduce
):
    """Lines 5-9 with a line search for each layer.

    In the paper's order (not `jacobi`) `response` and `error` are left as
    line 11 meets them, at the moved code of the layer below.

    Returns:
        move: by layer, z_m - f_m.
        error: by layer, target - response, the target being f + 2 move.
    """
    kernels, top = numbered(theta), len(theta)
    move, error = {}, {}
    move[top] = subproblems.solve_top_code(z[top], y, classifier, solver.beta)
    for m in range(top - 1, 0, -1):
        error[m + 1] = subproblems.error_of(response[m + 1], move[m + 1])
        move[m], change = subproblems.solve_hidden_code(
            error[m + 1],
            weight_copies.SampleMatrix(kernels[m + 1]),
            z[m] > subproblems.KINK,
            response[m + 1],
            solver,
            margin if m + 1 == top else None,
            weight,
            reduce,
        )
        if not solver.jacobi:
            response[m + 1] += change
            error[m + 1] -= change
    error[1] = subproblems.error_of(response[1], move[1])
    return move, error


def _several_sweeps(theta, classifier, x, y, solver, weight, group):
    """Algorithm 1 on the batch alone, `sweeps` times."""
    reduce = None if group is None else group.reduce
    weights = full.start_weights(theta, classifier)
    state = full.start_samples(theta, x)
    embedding = state.z[-1]
    _, sq_norms = _directions([x, *state.z[:-1]], solver, weight, reduce)
    gamma = _gamma(sq_norms, solver, weight, reduce)
    found = []
    for _ in range(solver.sweeps):
        state, sums, trace = full.sample_step(
            weights, x, state, y, gamma, solver, weight, reduce
        )
        trace = trace._replace(embedding=embedding)
        if group is not None:
            sums, trace, _ = groups.close(group, sums, trace, tf.shape(y)[0])
        weights, moves = full.consensus_step(weights, sums, gamma, solver)
        found.append(moves)
    total = tuple(map(tf.add_n, zip(*found, strict=True)))
    return total, sums, trace


def forward(theta, x):
    """Codes {0: x, 1: f_1, ...} and responses {1: ..., M: ...}."""
    z, response = {0: x}, {}
    for m, kernel in numbered(theta).items():
        response[m] = tf.matmul(z[m - 1], kernel)
        z[m] = tf.nn.relu(response[m])
    return z, response


def _directions(inputs, solver, weight, reduce):
    """Along which weight copies move, and x . direction of each sample."""
    directions = inputs
    if solver.mean_damping:
        directions = [
            weight_copies.directions(x, solver.mean_damping, weight, reduce)
            for x in inputs
        ]
    pairs = zip(inputs, directions, strict=True)
    return directions, [subproblems.row_sum(x * d) for x, d in pairs]


def _gamma(sq_norms, solver, weight, reduce):
    means = list(map(tf.reduce_mean, sq_norms))
    if reduce is not None:
        *sums, count = reduce(row_sums(sq_norms, weight))
        means = [s / count for s in sums]
    elif weight is not None:
        count = tf.reduce_sum(weight)
        means = [subproblems.total(s, weight) / count for s in sq_norms]
    return consensus.relative_gamma(means, solver)


def row_sums(values, weight):
    """Sum over samples of each [batch, 1], and their number at the end."""
    ones = tf.ones_like(values[0])
    return [subproblems.total(v, weight) for v in (*values, ones)]
