"""Lines 8-11 without line searches: an error is handed down at its length.

Where an optimizer rescales the moves of a layer, the length of a code's step
does not matter, only that errors neither vanish nor explode. A line search
can be saved then, and with it one product of a layer in four; and an error in
the right units is line 11's move itself, so that it is written once.
"""

from typing import NamedTuple

import tensorflow as tf

from vdsh_tf.solver import subproblems
from vdsh_tf.solver import weight_copies
from vdsh_tf.solver.records import numbered


class Pull(NamedTuple):
    """How far a layer would have its code moved.

    Attributes:
        direction: [batch, D]; the pull is `length / rate` times it.
        length: scalar > 0.
        squares: [batch, 1], |pull|^2 of each sample.
        rate: scalar or [batch, 1] > 0.
    """

    direction: tf.Tensor
    length: tf.Tensor | float
    squares: tf.Tensor
    rate: tf.Tensor | float = 1.0

    def value(self):
        return self.length / self.rate * self.direction


def of_error(error, response, margin=None) -> Pull:
    """Half the misfit that `subproblems.solve_hidden_code` starts with.

    Args:
        error, response, margin: as for `subproblems.solve_hidden_code`.
    """
    pull = tf.where(response > subproblems.KINK, 0.5 * error, 0.0)
    if margin is not None:
        shortfall = margin.shortfall(response)
        pull += 0.5 * margin.weight * margin.wanted * shortfall
    return Pull(pull, 1.0, subproblems.row_sum(tf.square(pull)))


def next_down(
    pull, copy, active, shared_step, rate=1.0, weight=None, reduce=None
) -> Pull:
    """Hands a pull down by one layer (line 8).

    A step of `subproblems.solve_hidden_code` without its line search. It goes
    along the same g, and is as long as the pull of the layer
    above, half of its misfit. An exact line search gives this length to an
    identity layer (from a forward start errors are doubled), and another
    positive factor to other layers, for which it takes a product of its own.
    One factor per layer is what an optimizer such as Adam divides out again.
    It is also what one beta per layer could give, so that an error neither
    vanishes nor explodes on its way down.

    Args:
        pull: Pull of layer m+1.
        copy: SampleMatrix of layer m+1.
        active: [batch, D_m] bool, whether f_m is active.
        shared_step: whether the lengths are those of all samples together.
        rate: of layer m, see `copy_rates`. The pull is kept in these units:
            it is line 11's move then, and no second array is written.
        weight: [batch, 1] sample weights of a shared step, or None.
        reduce: see `groups.Group`, if the batch is part of a larger one.

    Returns:
        Pull of layer m, its move z - center. From a forward start it is also
        what layer m hands down: its misfit is twice its move.
    """
    back = copy.rmatvec(pull.direction)
    g = tf.where(active, pull.length * rate / pull.rate * back, 0.0)
    squares = subproblems.row_sum(tf.square(g)) / (rate * rate)
    want = pull.squares
    if not shared_step:
        length = tf.sqrt(tf.math.divide_no_nan(want, squares))
        return Pull(length * g, 1.0, tf.square(length) * squares, rate)
    sums = subproblems.total(want, weight), subproblems.total(squares, weight)
    if reduce is not None:
        sums = reduce(list(sums))
    ratio = tf.math.divide_no_nan(*sums)
    return Pull(g, tf.sqrt(ratio), ratio * squares, rate)


def copy_rates(sq_norms, beta, gamma):
    """Line 11's move over the pull, for units that stay on: [batch, 1] each.

    From a forward start the error is twice the pull, of which a copy closes
    the share  beta / (beta + gamma / |x|^2).

    Args:
        sq_norms: for each layer [batch, 1], |x|^2 of its inputs.
        beta: scalar > 0.
        gamma: scalar > 0, for each layer.
    """
    return [
        2.0 * beta / (beta * sq_norm + g)
        for sq_norm, g in zip(sq_norms, gamma, strict=True)
    ]


def hand_down(
    theta,
    classifier,
    z,
    response,
    y,
    solver,
    margin,
    rates,
    weight,
    reduce=None,
):
    """Lines 5-9, from the top down, each pull as long as the one above.

    Returns:
        move: z - f of the code layer.
        pulls: Pull of each layer, {M: ..., 1: ...}; below the code layer it
            is z - f.
    """
    kernels, top = numbered(theta), len(theta)

    # Lines 5-6. The classification error enters at the top...
    move = subproblems.solve_top_code(z[top], y, classifier, solver.beta)
    error = subproblems.error_of(response[top], move)
    pulls = {top: of_error(error, response[top], margin)}

    # Lines 8-9. ...and is handed down, one layer at a time.
    for m in range(top - 1, 0, -1):
        pulls[m] = next_down(
            pulls[m + 1],
            weight_copies.SampleMatrix(kernels[m + 1]),
            z[m] > subproblems.KINK,
            solver.shared_step,
            rates[m - 1],
            weight,
            reduce,
        )
    return move, pulls


def weight_moves(pulls):
    """Line 11 below the code layer, where a copy stays on its linear piece.

    The pull of a unit that is on is half its error, and `Pull.rate` turns it
    into `subproblems.solve_weight_copy`'s move as long as that does not take
    the unit to the ReLU's kink; a unit that is off has neither. Copies that
    would stop at the kink go on: with `copy_step` of .01 they are those whose
    response is less than a fiftieth of its move.

    Returns:
        a: for each layer but the code layer.
        lengths: for each layer a scalar by which a is to be multiplied.
    """
    below = [pulls[m] for m in range(1, len(pulls))]
    a = [pull.direction for pull in below]
    return a, [*(pull.length for pull in below), 1.0]


def squares_of(move, pulls):
    """|z_m - f_m|^2 of each sample, for each layer."""
    below = [pulls[m].squares for m in range(1, len(pulls))]
    return [*below, subproblems.row_sum(tf.square(move))]


def code_move(sq_norm, response, gamma, move, solver, margin):
    """Line 11 for the code layer, whose code has moved by `move`."""
    error = subproblems.error_of(response, move)
    return subproblems.solve_copy(
        sq_norm, error, response, solver.beta, gamma, margin
    )
