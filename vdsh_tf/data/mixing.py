"""Training rows made of two: mixtures, and chimeras.

Both take something of the row before in the batch; the first row of a batch
takes it of the last. Of a slice of a larger batch (`place`: where it begins,
and how many rows the larger one has) the first row is the one before the
slice, for the others to take from.
"""

import numpy as np
import tensorflow as tf

# Of the directions of entries in `crossed`.
_SPACE = 16


def blended(x, labels, weight, recipe, seed, place=None):
    """What a step trains on.

    Args:
        x: [batch, d], normalised rows.
        labels: [batch, C], label vectors.
        weight: [batch] sample weights, or None.
        recipe: `recipes.Recipe`, which asks for either or both.
        seed: two integers.
        place: see the module.

    Returns:
        x, labels and weights; and the weights that metrics count with, where
        chimeras are nothing.
    """
    found, found_labels, weight = mixed(
        x, labels, weight, recipe.mixup, seed, place
    )
    if not recipe.chimeras:
        return found, found_labels, weight, weight
    x, labels = crossed(x, labels, tf.add(seed, 1), place)
    start = 0 if place is None else place[0]
    rows = chosen(recipe.chimeras, tf.shape(x)[0], tf.add(seed, 2), start)
    counted = tf.ones_like(x[:, 0]) if weight is None else weight
    return (
        tf.where(rows[:, None], x, found),
        tf.where(rows[:, None], labels, found_labels),
        weight,
        tf.where(rows, tf.zeros_like(counted), counted),
    )


def mixed(x, y, weight, share: float, seed, place=None):
    """A batch whose samples have taken something of their neighbour.

    Args:
        x: [batch, d], normalised rows.
        y: [batch, C], targets.
        weight: [batch] sample weights, or None.
        share: the largest part that is taken, from 0 to .5; each sample draws
            its own.
        seed: two integers.
        place: see the module.

    Returns:
        x, with rows of length one again; y; and weight.
    """
    if weight is not None:
        weight = tf.cast(weight, x.dtype)
    if not share:
        return tuple(_own(values, place) for values in (x, y, weight))
    rows = tf.shape(x)[0] if place is None else place[1]
    taken = tf.random.stateless_uniform([rows, 1], seed, 0.0, share, x.dtype)
    if place is not None:
        start = place[0]
        taken = taken[start : start + tf.shape(x)[0] - 1]

    def mix(values, taken):
        own = _own(values, place)
        return own + taken * (_before(values, place) - own)

    if weight is not None:
        weight = mix(weight, taken[:, 0])
    return _of_length_one(mix(x, taken)), mix(y, taken), weight


def crossed(x, labels, seed, place=None):
    """Chimeras: rows with about half of their entries from their neighbour.

    Entry by entry a chimera is like any row, and as a whole like none. It has
    the labels that both rows share, mostly none, and so tells the network
    what is of no class. Without, a network answers far from all data as
    surely as on them, and items of classes that it does not know get codes of
    those that it knows.

    Args:
        x: [batch, d], normalised rows.
        labels: [batch, C], label vectors.
        seed: two integers, of the entries, which are the same for all rows.
        place: see the module.

    Returns:
        x, with rows of length one again; and labels.
    """
    # Entries have directions of their own, and a random plane parts them. A
    # random number per entry would do, but XLA draws these anew wherever they
    # are read, that is for each row; a product it computes once.
    directions = np.random.default_rng(0).normal(size=(x.shape[1], _SPACE))
    plane = tf.random.stateless_normal([_SPACE, 1], seed)
    own = tf.matmul(directions.astype(np.float32), plane)[:, 0] > 0
    x = tf.where(own, _own(x, place), _before(x, place))
    shared = tf.minimum(_own(labels, place), _before(labels, place))
    return _of_length_one(x), shared


def chosen(share: float, rows, seed, start=0):
    """Which rows become chimeras, evenly spread over a batch: [rows] bool.

    Args:
        share: of all rows, >= 0 and < 1.
        rows: how many to tell of.
        seed: two integers, of the first one: data that always come in the
            same order lose other rows in every epoch.
        start: number of the first of them in its batch.
    """
    # Not `tf.range`, whose kernel for a GPU leaves its numbers to the host.
    number = tf.cumsum(tf.ones([rows])) + tf.cast(start, tf.float32)
    phase = tf.random.stateless_uniform([], seed)
    count = tf.floor(number * share + phase)
    return count > tf.floor((number - 1) * share + phase)


def _before(values, place):
    return tf.roll(values, 1, axis=0) if place is None else values[:-1]


def _own(values, place):
    return values if place is None or values is None else values[1:]


def _of_length_one(x):
    """`network.unit_length` for rows made of such: none is huge or tiny."""
    # A product with ones: XLA adds up the terms of a sum one by one.
    squares = tf.matmul(tf.square(x), tf.ones([x.shape[1], 1], x.dtype))
    return tf.math.divide_no_nan(x, tf.sqrt(squares))
