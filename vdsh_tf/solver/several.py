"""The online step of several workers: two all-reduces, whatever the depth.

A worker runs forward and hands its errors down with lengths of its own rows;
one all-reduce of 2 M + 1 numbers tells what the lengths and gammas of all rows
are; a factor per layer then mends the moves, line 11 follows, and the second
all-reduce adds up what the consensus needs. Both parts between are local, so
that they can be compiled.
"""

import tensorflow as tf

from vdsh_tf.solver import consensus
from vdsh_tf.solver import groups
from vdsh_tf.solver import objective
from vdsh_tf.solver import online
from vdsh_tf.solver import pulls
from vdsh_tf.solver import subproblems
from vdsh_tf.solver.records import Trace
from vdsh_tf.solver.records import Update


def step(theta, classifier, x, y, solver, exact, weight, group) -> Update:
    """`online.step` on a worker's part of a batch; equal for all workers.

    Options whose line searches or means depend on one another take one more
    all-reduce for each of these.

    Args:
        theta, classifier, x, y, solver, exact, weight: see `online.step`.
        group: groups.Group.
    """
    solver = online.with_lengths(solver, exact)
    is_linear = solver.preserve_error_norm and solver.shared_step
    if not is_linear or solver.mean_damping or solver.sweeps > 1:
        return online.step(
            theta, classifier, x, y, solver, exact, weight, group
        )
    if weight is not None:
        weight = tf.cast(weight, y.dtype)[:, None]

    def down(theta, classifier, x, y, weight):
        return _down(theta, classifier, x, y, solver, weight)

    def close(classifier, x, y, weight, *found):
        return _close(classifier, x, y, solver, weight, *found)

    kept, products, *sums = group.local(down)(theta, classifier, x, y, weight)
    sq_norms, squares, pulled, count = _unpacked(
        group.reduce([tf.concat(sums, axis=0)])[0], len(theta)
    )
    factors = groups.corrections(products, squares, pulled)
    gamma = consensus.relative_gamma(
        tf.unstack(tf.cast(sq_norms / count, y.dtype)), solver
    )
    factors = tf.cast(factors, y.dtype)
    sums, trace = group.local(close)(
        classifier, x, y, weight, *kept, factors, gamma
    )
    sums, trace, _ = groups.close(group, sums, trace, tf.shape(y)[0])
    moves = consensus.theta_moves(theta, sums, gamma, solver)
    return online.update(classifier, moves, sums, trace, solver, exact)


def _down(theta, classifier, x, y, solver, weight):
    """Lines 5-9 with lengths of this worker's rows.

    Returns:
        What `_close` needs: responses of layers 1 to M, and |x|^2 of their
            inputs; the move of the code layer; moves of layers M-1 to 1, and
            their squares.
        products: see `groups.chain`.
        Vectors in float64 to be added up, see `_unpacked`.
    """
    z, response = online.forward(theta, x)
    margin = subproblems.margin_of(y, classifier, solver)
    # Rates of copies are known with gamma only, which is of all rows.
    rates = [1.0] * len(theta)
    move, handed = pulls.hand_down(
        theta, classifier, z, response, y, solver, margin, rates, weight
    )
    top, *below = handed.values()
    sq_norms = [subproblems.row_sum(tf.square(z[m])) for m in range(len(theta))]
    sums = tf.stack(online.row_sums(sq_norms, weight))
    products, lengths, pulled = groups.chain(
        [pull.length for pull in below],
        subproblems.total(top.squares, weight),
    )
    kept = (
        tuple(response.values()),
        tuple(sq_norms),
        move,
        tuple(pull.value() for pull in below),
        tuple(pull.squares for pull in below),
    )
    return kept, products, tf.cast(sums, tf.float64), lengths, pulled[None]


def _unpacked(sums, layers):
    """What `_down` sends: |x|^2 of each layer, |g|^2, the pull, the count."""
    sq_norms, count, squares, pulled = tf.split(
        sums, [layers, 1, layers - 1, 1]
    )
    return sq_norms, squares, pulled[0], count[0]


def _close(
    classifier,
    x,
    y,
    solver,
    weight,
    response,
    sq_norms,
    move,
    moves,
    squares,
    factors,
    gamma,
):
    """Line 11 with lengths of all rows: this worker's Sums, and Trace."""
    # Computed again, which is less to keep than to read.
    codes = [x, *[tf.nn.relu(r) for r in response]]
    inputs, embedding = codes[:-1], codes[-1]
    rates = pulls.copy_rates(sq_norms, solver.beta, gamma)
    lengths = tf.unstack(factors)[::-1]
    a = [rate * m for rate, m in zip(rates, moves[::-1], strict=False)]
    margin = subproblems.margin_of(y, classifier, solver)
    copy = (sq_norms[-1], response[-1], gamma[-1])
    a.append(pulls.code_move(*copy, move, solver, margin))
    sums = consensus.sums_of(
        inputs, a, embedding + move, y, weight, [*lengths, 1.0]
    )
    squares = [
        tf.square(length) * square
        for length, square in zip(lengths, squares[::-1], strict=True)
    ]
    squares.append(subproblems.row_sum(tf.square(move)))
    residual = objective.mean_lengths(squares)
    return sums, Trace(embedding, residual, solver.beta * residual)
