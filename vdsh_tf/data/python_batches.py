"""Batches made by Python code, as `tf.data`: PyDatasets and generators."""

import collections.abc
import io
import itertools

import keras
import numpy as np
import tensorflow as tf


def is_python(source) -> bool:
    """Whether `source` is a `keras.utils.PyDataset` or a generator."""
    return isinstance(
        source, keras.utils.PyDataset | collections.abc.Iterator
    ) and not isinstance(source, tf.data.Iterator | io.IOBase)


def wrap(source, shuffle: bool = False, seed: int = 0):
    """PyBatches or GeneratorBatches of a source that is one of the two."""
    if isinstance(source, keras.utils.PyDataset):
        return PyBatches(source, shuffle, seed)
    return GeneratorBatches(source)


class PyBatches:
    """A `keras.utils.PyDataset`, whose batches are found by number.

    Its workers are threads here, never processes.

    Args:
        source: the PyDataset.
        shuffle: whether the order of its batches changes with every epoch.
        seed: of that order.
    """

    def __init__(self, source, shuffle: bool = False, seed: int = 0):
        self.source = source
        self.shuffle = shuffle
        self.seed = seed

    def look(self):
        """Its batches, as long as they are asked for."""
        count = self.source.num_batches
        numbers = itertools.count() if count is None else range(count)
        return (self.source[i] for i in numbers)

    def dataset(self) -> tf.data.Dataset:
        """All batches; without end if the PyDataset has none."""
        count = self.source.num_batches
        spec = signature(next(self.look(), None))
        if count is None:
            numbers = tf.data.Dataset.counter()
        else:
            numbers = tf.data.Dataset.range(count)
            if self.shuffle:
                numbers = numbers.shuffle(count, self.seed)

        def fetch(number):
            batch = tf.numpy_function(
                lambda i: as_arrays(self.source[int(i)], spec),
                [number],
                [part.dtype for part in spec],
                stateful=True,
            )
            return tuple(
                tf.ensure_shape(value, part.shape)
                for value, part in zip(batch, spec, strict=True)
            )

        return numbers.map(fetch, max(1, self.source.workers)).prefetch(1)

    def hooks(self) -> list[keras.callbacks.Callback]:
        """Callbacks that tell the PyDataset when an epoch begins and ends."""
        return [
            keras.callbacks.LambdaCallback(
                on_epoch_begin=lambda *_: self.source.on_epoch_begin(),
                on_epoch_end=lambda *_: self.source.on_epoch_end(),
            )
        ]


class GeneratorBatches:
    """A Python generator. What was looked at is trained on all the same.

    Args:
        source: the generator.
    """

    def __init__(self, source):
        self.source = source
        self._seen: list = []

    def look(self):
        """Its batches from the first, as long as they are asked for."""
        yield from tuple(self._seen)
        for batch in self.source:
            self._seen.append(batch)
            yield batch

    def dataset(self) -> tf.data.Dataset:
        """The batches, once: a generator cannot begin again."""
        spec = signature(next(self.look(), None))

        def remaining():
            while self._seen:
                yield as_arrays(self._seen.pop(0), spec)
            for batch in self.source:
                yield as_arrays(batch, spec)

        return tf.data.Dataset.from_generator(
            remaining, output_signature=spec
        ).prefetch(1)

    def hooks(self) -> list[keras.callbacks.Callback]:
        """None: a generator does not ask for epochs."""
        return []


class _CheckedBatches(keras.utils.PyDataset):
    """A PyDataset of which each batch goes through a function."""

    def __init__(self, source, check):
        # Threads, never processes, which might not find the function.
        super().__init__(workers=source.workers)
        self.source = source
        self.check = check

    @property
    def num_batches(self):
        return self.source.num_batches

    def __getitem__(self, number):
        return self.check(self.source[number])

    def on_epoch_begin(self):
        self.source.on_epoch_begin()

    def on_epoch_end(self):
        self.source.on_epoch_end()


def checked(source, check):
    """The same batches of x, or of (x, ...), with `check(x)` for each x."""

    def check_first(batch):
        if isinstance(batch, tuple | list) and batch:
            return (check(batch[0]), *batch[1:])
        return check(batch)

    if isinstance(source, keras.utils.PyDataset):
        return _CheckedBatches(source, check_first)
    return (check_first(batch) for batch in source)


def signature(batch) -> tuple[tf.TensorSpec, ...]:
    """Types of (x, y) or (x, y, sample_weight), from the first batch."""
    if batch is None:
        raise ValueError(
            "There must be at least one batch. Received: an empty generator "
            "or PyDataset."
        )
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise ValueError(
            "Generators and PyDatasets must yield (x, y) pairs, or (x, y, "
            f"sample_weight). Received: {type(batch).__name__}"
            f"{f' of {len(batch)}' if hasattr(batch, '__len__') else ''}."
        )
    arrays = [np.asarray(part) for part in batch]
    return tuple(
        tf.TensorSpec([None, *array.shape[1:]], array.dtype) for array in arrays
    )


def as_arrays(batch, spec) -> tuple[np.ndarray, ...]:
    """A batch as arrays of the types that the first one had."""
    arrays = [np.asarray(value) for value in batch]
    if any(array.dtype.kind not in "fiub" for array in arrays):
        raise ValueError(
            "Batches must hold numbers. Received: dtypes "
            f"{', '.join(str(array.dtype) for array in arrays)}."
        )
    return tuple(
        array.astype(part.dtype.as_numpy_dtype, copy=False)
        for array, part in zip(arrays, spec, strict=True)
    )
