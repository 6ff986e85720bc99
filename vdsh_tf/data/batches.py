"""Training batches: order, noise and dropout from a seed and an epoch alone.

Training that is resumed at an epoch sees what it would have seen.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Perturbation(NamedTuple):
    """What is done to training rows, in the space that the network sees.

    Attributes:
        noise: length of the random noise, as a share of the row's own.
        dropout: share of the entries that are set to zero.
        mean, scale: [d] of the encoder's normalisation, or None; a row is
            perturbed as (x - mean) * scale and mapped back.
    """

    noise: float = 0.0
    dropout: float = 0.0
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None

    def __call__(self, rows, seed):
        """Perturbs raw rows [batch, d]; `seed` is two integers."""
        rows = tf.cast(rows, tf.float32)
        if not self.noise and not self.dropout:
            return rows
        mean = 0.0 if self.mean is None else tf.constant(self.mean)
        scale = 1.0
        if self.scale is not None:
            # A column that is ignored comes back as it was.
            scale = np.where(self.scale > 0, self.scale, 1).astype("f4")
        moved = perturb((rows - mean) * scale, self.noise, self.dropout, seed)
        return mean + moved / scale


def perturb(rows, noise: float, dropout: float, seed):
    """Rows with noise, then without some entries.

    Args:
        rows: [batch, d] float32, with the mean taken off where it is.
        noise: length of the random noise, as a share of the row's own.
        dropout: share of the entries that are set to zero.
        seed: two integers.
    """
    if noise:
        length = _length(rows)
        rows += noise / rows.shape[1] ** 0.5 * length * _specks(rows, seed)
    if dropout:
        other = tf.add(seed, 1)
        chance = tf.random.stateless_uniform(tf.shape(rows), other)
        rows = tf.where(chance < dropout, 0.0, rows)
    return rows


def _length(rows):
    """Length of each row [batch, 1], also where squares leave float32."""
    length = tf.norm(rows, axis=1, keepdims=True)
    peak = tf.reduce_max(tf.abs(rows), axis=1, keepdims=True)
    # Where neither happens, the usual sum counts, to the bit.
    usual = (peak < 2.0**50) & (peak > 2.0**-50)
    small = tf.math.divide_no_nan(rows, peak)
    return tf.where(usual, length, peak * tf.norm(small, axis=1, keepdims=True))


def _specks(rows, seed):
    """Random numbers of mean 0 and variance 1, one for each entry.

    Equally spaced and equally likely, from one byte each: a fifth of the time
    that Gaussian ones take, which is a third of a step of four layers. What a
    unit sees is a sum over all entries, Gaussian either way.
    """
    count, dim = tf.shape(rows)[0], rows.shape[1]
    words = tf.random.stateless_uniform(
        [count, -(-dim // 4)], seed, None, None, tf.int32
    )
    octets = tf.reshape(tf.bitcast(words, tf.uint8), [count, -1])[:, :dim]
    deviation = ((256**2 - 1) / 12) ** 0.5
    return (tf.cast(octets, tf.float32) - 127.5) / deviation


def default_size(rows: int) -> int:
    """A power of two from 16 to 256, such that an epoch has 25 steps."""
    steps = max(1, rows // 25)
    return min(256, max(16, 2 ** (steps.bit_length() - 1)))


def shuffled(
    arrays: tuple,
    batch_size: int,
    seed: int = 0,
    epoch: int | tf.Variable = 0,
    perturbation: Perturbation | None = None,
) -> tuple[tf.data.Dataset, int]:
    """Endless shuffled batches of raw rows as float32, for `fit`.

    Order and noise of an epoch depend on `seed` and its number alone.

    Args:
        arrays: x [n, d], y, and sample weights if there are any.
        batch_size: rows in a batch, at most all.
        seed: of order and noise.
        epoch: number of the first epoch. A variable is read when the first
            batch is asked for: training that is resumed by a callback knows
            no sooner.
        perturbation: of the rows; None leaves them as they are.

    Returns:
        The dataset, and the number of batches per epoch. A last batch that
        is not full is dropped, to keep shapes static.
    """
    perturbation = perturbation or Perturbation()
    num = len(arrays[0])
    batch_size = min(batch_size or default_size(num), num)
    x, *others = map(tf.constant, arrays)
    key = tf.constant(seed, tf.int64)

    def batches_of(number):
        order = tf.random.experimental.stateless_shuffle(
            tf.range(num), tf.stack([key, number])
        )
        index = tf.data.Dataset.from_tensor_slices(order).batch(
            batch_size, drop_remainder=True
        )
        starts = tf.data.Dataset.counter(number * num, batch_size)
        return tf.data.Dataset.zip(index, starts)

    def fetch(index, start):
        rows = perturbation(tf.gather(x, index), tf.stack([key, start]))
        return (rows, *(tf.gather(other, index) for other in others))

    dataset = (
        read_once(epoch)
        .flat_map(tf.data.Dataset.counter)
        .flat_map(batches_of)
        .map(fetch, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    return dataset, num // batch_size


def perturbed(
    dataset: tf.data.Dataset,
    perturbation: Perturbation,
    seed: int,
    epoch: int | tf.Variable = 0,
) -> tf.data.Dataset:
    """A user's own batches, in their order, with perturbed rows.

    Noise depends on `seed`, the epoch (see `shuffled`) and the number of the
    batch.
    """
    if not perturbation.noise and not perturbation.dropout:
        return dataset
    key = tf.constant(seed, tf.int64)
    numbers = read_once(epoch).flat_map(
        lambda first: tf.data.Dataset.counter(first * 2**32)
    )
    # Nothing in `numbers` tells tf.data that it has no end.
    endless = tf.data.experimental.assert_cardinality(
        tf.data.INFINITE_CARDINALITY
    )

    def change(number, element):
        x, *others = element
        return (perturbation(x, tf.stack([key, number])), *others)

    return (
        tf.data.Dataset.zip(numbers.apply(endless), dataset)
        .map(change, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )


def read_once(number):
    """A dataset of one number, read when its iterator starts."""

    def read(_):
        return tf.cast(tf.convert_to_tensor(number), tf.int64)

    return tf.data.Dataset.from_tensors(0).map(read)
