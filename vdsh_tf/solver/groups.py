"""Several workers, one batch: they tell each other sums, and nothing else.

A worker has some rows of every batch. All that rows share is a sum over them,
so that a step is exact if the workers add these sums up at the right places.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from vdsh_tf.solver.records import Sums


class Group(NamedTuple):
    """The workers that share a batch, as one of them sees it.

    Attributes:
        reduce: function of a list of tensors, which are of the same shapes
            for all workers: their sums over all workers, the same for all.
            Every call is one all-reduce.
        local: function of a function that calls `reduce` nowhere: the same
            function, maybe compiled.
        measure: function of the embedding [batch, K] of this worker's rows:
            sums over them, a list of scalars, to be added up along with the
            last sums of a step, for logging.
        member: number of the worker among those of this process.
    """

    reduce: Callable[[list], list]
    local: Callable[[Callable], Callable] = lambda function: function
    measure: Callable[[Any], list] = lambda embedding: []
    member: int = 0


class Shards(NamedTuple):
    """Which rows the workers of this process keep the state of.

    Attributes:
        rows: for each worker of this process the numbers of its rows, in the
            order in which it meets them.
        devices: for each of them, where it computes.
        total: function of a list of arrays for each worker of this process:
            their sums over all workers.
    """

    rows: list[np.ndarray]
    devices: list[str]
    total: Callable[[list], list]


def close(group: Group, sums: Sums, trace, rows) -> tuple:
    """Sums, Trace and number of rows of all workers: one all-reduce.

    Args:
        group: Group.
        sums: this worker's Sums.
        trace: Trace, with means over this worker's rows.
        rows: number of this worker's rows; may be 0.
    """
    rows = tf.cast(rows, sums.zz.dtype)
    # A mean over no rows is not a number; it counts as nothing.
    lengths = [
        tf.math.multiply_no_nan(mean, rows)
        for mean in (trace.residual, trace.dual)
    ]
    measured = group.measure(trace.embedding)
    parts = [*tf.nest.flatten(sums), *lengths, rows, *measured]
    added = group.reduce(parts)
    at = len(tf.nest.flatten(sums))
    residual, dual, rows = added[at : at + 3]
    trace = trace._replace(
        residual=residual / rows, dual=dual / rows, measured=added[at + 3 :]
    )
    return tf.nest.pack_sequence_as(sums, added[:at]), trace, rows


def chain(lengths, pulled):
    """What a worker tells of the errors that it handed down by itself.

    A worker hands an error down with lengths l of its own rows, which differ
    from those of all rows. But lines 8-9 are linear in the error above: what
    comes to layer m with all lengths 1, g_m, is what came with lengths of its
    own over the product p_m of those at and above m. A worker's own lengths
    keep |error|^2 at the `pulled` of the top, so that |g_m|^2 over its rows
    is pulled / p_m^2. Sums of it over all workers give the lengths of all
    rows, see `corrections`. Products are taken in float64, for they may leave
    the range of float32 on their way through many layers.

    Args:
        lengths: those of layers M-1 to 1, scalars.
        pulled: scalar, sum of the squares of the pull at the top.

    Returns:
        products: [M-1], p of layers M-1 to 1.
        squares: [M-1], |g|^2 of these layers over this worker's rows.
        pulled: scalar. All in float64.
    """
    pulled = tf.cast(pulled, tf.float64)
    if not lengths:
        none = tf.zeros([0], tf.float64)
        return none, none, pulled
    products = tf.math.cumprod(tf.cast(tf.stack(lengths), tf.float64))
    # A layer without an active unit has length 0, and nothing below it.
    squares = tf.math.divide_no_nan(pulled, tf.square(products))
    return products, squares, pulled


def corrections(products, squares, pulled):
    """Factors that turn moves with a worker's own lengths into everybody's.

    With lengths of all rows, too, |error|^2 stays what it was at the top, so
    that the product of lengths at and above layer m is
    sqrt(pulled / |g_m|^2), sums being over all rows.

    Args:
        products: [M-1], of this worker, from `chain`.
        squares: [M-1], and
        pulled: scalar, added up over all workers.

    Returns:
        [M-1] float64, for layers M-1 to 1.
    """
    common = tf.sqrt(tf.math.divide_no_nan(pulled, squares))
    return tf.math.divide_no_nan(common, products)
