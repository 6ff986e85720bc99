"""Batches for `fit`, of rows in memory or on disk.

The order of an epoch is a function of the seed and its number alone. On disk,
pieces (row groups, or as many rows as make a megabyte) of all shards are put
in a random order, and rows are shuffled inside a buffer of many pieces; the
next buffer is read while one is used.
"""

import concurrent.futures
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from vdsh_tf.data import batches
from vdsh_tf.data.shards.rows import StoredRows

# Of one buffer; there are two.
BUFFER_BYTES = 1 << 26


def shuffled(
    arrays: tuple,
    batch_size: int,
    seed: int = 0,
    epoch: int | tf.Variable = 0,
    perturbation: batches.Perturbation | None = None,
) -> tuple[tf.data.Dataset, int]:
    """Endless shuffled batches, as `batches.shuffled`, for stored rows, too.

    Args:
        arrays: x [n, d], which may be StoredRows, y, and sample weights.
        batch_size, seed, epoch, perturbation: as there.
    """
    x, *others = arrays
    if not isinstance(x, StoredRows):
        return batches.shuffled(arrays, batch_size, seed, epoch, perturbation)
    num = len(x)
    batch_size = min(batch_size or batches.default_size(num), num)
    made = perturbation or batches.Perturbation()
    key = tf.constant(seed, tf.int64)
    source = Source(x, others, batch_size, seed)

    def batches_of(number):
        starts = tf.data.Dataset.counter(number * num, batch_size)
        return tf.data.Dataset.zip(source.dataset(number), starts)

    def perturb(element, start):
        rows, *labels = element
        return (made(rows, tf.stack([key, start])), *labels)

    dataset = (
        batches.read_once(epoch)
        .flat_map(tf.data.Dataset.counter)
        .flat_map(batches_of)
        .map(perturb, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    return dataset, num // batch_size


def in_order(arrays: tuple, batch_size: int) -> tf.data.Dataset:
    """All rows once, in their order; the last batch may have fewer.

    Args:
        arrays: x [n, d], which may be StoredRows, y, and sample weights.
        batch_size: rows in a batch.
    """
    x, *others = arrays
    if not isinstance(x, StoredRows):
        return tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)
    source = Source(x, others, batch_size)
    count = tf.data.experimental.assert_cardinality(-(-len(x) // batch_size))
    return source.dataset(0).apply(count).prefetch(tf.data.AUTOTUNE)


class Source:
    """Batches of stored rows, made in Python for `tf.data`.

    Args:
        x: the rows.
        others: arrays with an entry per row: labels, weights.
        batch_size: rows in a batch.
        seed: of the order; None leaves it.
    """

    def __init__(self, x: StoredRows, others, batch_size, seed=None):
        self.x = x
        self.others = others
        self.batch_size = batch_size
        self.seed = seed
        self._failure: Exception | None = None

    def dataset(self, epoch) -> tf.data.Dataset:
        """The batches of an epoch; drops a last one unless in order."""
        size = None if self.seed is None else self.batch_size
        spec = tuple(
            tf.TensorSpec([size, *array.shape[1:]], array.dtype)
            for array in (self.x, *self.others)
        )
        return tf.data.Dataset.from_generator(
            self.batches, args=(epoch,), output_signature=spec
        )

    def batches(self, epoch: int) -> Iterator[tuple[np.ndarray, ...]]:
        """The same as arrays."""
        if self._failure is not None:
            # `tf.data` goes on to the next epoch after an error.
            raise self._failure
        try:
            if self.seed is None:
                found = self.x.filled(self.x.pieces(), self.batch_size)
                yield from ((x, *self._beside(places)) for x, places in found)
            else:
                yield from self._shuffled(int(epoch))
        except Exception as error:
            self._failure = self.x.failure = error
            raise

    def _shuffled(self, epoch):
        with concurrent.futures.ThreadPoolExecutor(1) as reader:
            buffers = self._buffers(epoch)
            ahead = reader.submit(next, buffers, None)
            while (buffer := ahead.result()) is not None:
                ahead = reader.submit(next, buffers, None)
                yield from self._cut(*buffer)

    def _buffers(self, epoch):
        """Rows of shuffled pieces, their places, and an order of them."""
        rng = np.random.default_rng([self.seed, epoch])
        pieces = rng.permutation(self.x.pieces())
        size = buffer_rows(self.x, self.batch_size)
        # One is used while the other is filled.
        for x, places in self.x.filled(pieces, size, arrays=2):
            yield x, places, rng.permutation(len(x))

    def _cut(self, x, places, order):
        """Whole batches; all buffers but the last have nothing else."""
        last = len(order) - len(order) % self.batch_size
        for start in range(0, last, self.batch_size):
            chosen = order[start : start + self.batch_size]
            yield x[chosen], *self._beside(places[chosen])

    def _beside(self, places):
        return [array[places] for array in self.others]


def buffer_rows(x: StoredRows, batch_size: int) -> int:
    """Rows that are shuffled together: whole batches, at least one."""
    rows = BUFFER_BYTES // (x.shape[1] * x.dtype.itemsize)
    return max(1, rows // batch_size) * batch_size
