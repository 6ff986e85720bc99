"""TrainingData: what `fit` was given, checked, and made into batches."""

import contextlib
import dataclasses
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from vdsh_tf import config
from vdsh_tf.data import batches
from vdsh_tf.data import inputs
from vdsh_tf.data import python_batches
from vdsh_tf.data import tensors
from vdsh_tf.data.shards import feeding
from vdsh_tf.data.shards.rows import StoredRows


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """Arrays, or batches in the place of x.

    Attributes:
        x: [n, d] array, or StoredRows; or batches (x, y) or (x, y, weight)
            in a `tf.data` dataset, a `keras.utils.PyDataset` or a generator,
            of which `checked` makes a dataset.
        y: [n] or [n, C], or None.
        weight: [n] sample weights, or None.
        batch_size: rows in a batch; None chooses by the number of rows.
        shuffle: whether arrays, and the batches of a PyDataset, are shuffled
            before every epoch.
        source: the PyDataset or generator that x was, as `python_batches`
            wraps it, or None.
    """

    x: Any
    y: Any = None
    weight: Any = None
    batch_size: int | None = None
    shuffle: bool = True
    source: Any = None

    def checked(
        self,
        width: int | None,
        num_classes: int,
        seed: int = 0,
        scale_free: bool = False,
        several: bool = True,
    ) -> "TrainingData":
        """The same after checks of features, labels and weights.

        Args:
            width: d, if the network is built already.
            num_classes: C.
            seed: of the order of a PyDataset's batches.
            scale_free, several: see `inputs`; for arrays.
        """
        x, source = self.x, None
        if python_batches.is_python(x):
            source = python_batches.wrap(x, self.shuffle, seed)
            x = source.dataset()
        if isinstance(x, tf.data.Dataset):
            self._check_alone()
            x = tensors.checked_dataset(x, width, num_classes)
            return dataclasses.replace(self, x=x, source=source)
        self.check_batch_size()
        if self.stored:
            # Its rows were checked when they were first read.
            inputs.check_width(self.x.shape[1], width, f"shape={x.shape}")
            y = inputs.check_labels(self.y, num_classes, several)
            inputs.check_lengths(x, y)
        else:
            x, y = inputs.check_pair(
                self.x, self.y, width, num_classes, scale_free, several
            )
        weight = inputs.check_weights(self.weight, len(x))
        return dataclasses.replace(self, x=x, y=y, weight=weight)

    def weighted(
        self, class_weight: dict | None, num_classes: int
    ) -> "TrainingData":
        """The same with a weight per row, that of its class.

        Args:
            class_weight: weights by class, as for `fit`, or None. Of several
                labels the first one counts, as in Keras.
            num_classes: C.
        """
        if class_weight is None:
            return self
        parts = self.x.element_spec if self.streamed else self.arrays
        if len(parts) == 3:
            raise ValueError(
                "`class_weight` and sample weights must not be given at the "
                "same time: it is not said how they combine. Multiply the "
                "sample weights by those of the classes."
            )
        weights = class_weights(class_weight, num_classes)
        if not self.streamed:
            labels = self.y if self.y.ndim == 1 else self.y.argmax(axis=1)
            return dataclasses.replace(self, weight=weights[labels])

        def add_weight(x, y):
            labels = y if y.shape.rank == 1 else tf.argmax(y, axis=1)
            return x, y, tf.gather(weights, labels)

        return dataclasses.replace(self, x=self.x.map(add_weight))

    def check_batch_size(self) -> None:
        """Raises unless `batch_size` is None or a number of rows."""
        config.require(
            self.batch_size is None or config.is_count(self.batch_size),
            "batch_size",
            self.batch_size,
            "an integer >= 1",
            "or None, which chooses by the number of rows",
        )

    def _check_alone(self):
        """Batches bring their labels and weights with them."""
        for name, value in (("y", self.y), ("sample_weight", self.weight)):
            if value is not None:
                raise ValueError(
                    f"`{name}` must be None beside batches: let them be "
                    "(x, y) or (x, y, sample_weight). Received: "
                    f"{name} of type {type(value).__name__}."
                )

    @property
    def is_batches(self) -> bool:
        """Whether x is batches, of `tf.data` or of Python code."""
        return self.streamed or python_batches.is_python(self.x)

    @property
    def streamed(self) -> bool:
        """Whether the data is a dataset."""
        return isinstance(self.x, tf.data.Dataset)

    @property
    def stored(self) -> bool:
        """Whether x is rows that stay on disk."""
        return isinstance(self.x, StoredRows)

    @property
    def full_batch(self) -> int:
        """Rows that the full schedule takes at once; does not matter much."""
        return self.batch_size or 256

    @property
    def width(self) -> int:
        """d, numbers in a row."""
        if self.streamed:
            return self.x.element_spec[0].shape[1]
        return self.x.shape[1]

    @property
    def arrays(self) -> tuple:
        """x, y, and sample weights if there are any."""
        arrays = (self.x, self.y, self.weight)
        return tuple(a for a in arrays if a is not None)

    def split(self, share: float) -> tuple["TrainingData", tuple | None]:
        """Holds the last share of the rows out, as Keras does."""
        if not share:
            return self, None
        if self.streamed or not 0 < share < 1:
            raise ValueError(
                "`validation_split` must be between 0 and 1, and the data "
                f"arrays. Received: validation_split={share}. Give "
                "`validation_data` with a dataset."
            )
        at = int(len(self.x) * (1 - share))
        kept = dataclasses.replace(
            self,
            x=self.x[:at],
            y=self.y[:at],
            weight=None if self.weight is None else self.weight[:at],
        )
        return kept, tuple(array[at:] for array in self.arrays)

    def arguments(self, seed, epoch, perturbation) -> dict:
        """Keywords of `keras.Model.fit` that train on this data.

        Args:
            seed: of order and noise.
            epoch: variable with the number of the epoch.
            perturbation: `batches.Perturbation` of the rows.
        """
        if self.streamed:
            dataset = batches.perturbed(self.x, perturbation, seed, epoch)
            return {"x": dataset, "shuffle": False}
        size = self.batch_size or batches.default_size(len(self.x))
        # The objective has a share of the penalty per row of a batch: to be
        # compared, validation must have batches of the same size.
        fixed = {"shuffle": False, "validation_batch_size": size}
        if self.shuffle:
            dataset, steps = feeding.shuffled(
                self.arrays, size, seed, epoch, perturbation
            )
            return {"x": dataset, "steps_per_epoch": steps, **fixed}
        dataset = feeding.in_order(self.arrays, size)
        dataset = batches.perturbed(dataset, perturbation, seed, epoch)
        return {"x": dataset, **fixed}

    def look(self):
        """What can be looked at before training: an array, or batches."""
        if self.stored:
            return self.x.sample()
        return self.x if self.source is None else self.source.look()

    def sample(self, most: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Up to `most` rows, evenly spread over arrays, first of batches.

        Returns:
            Rows [n, d], and their weights [n] if they have any.
        """
        if self.streamed:
            return sample_of(self.look(), most)
        rows = self.look()
        # Stored rows are a sample already, of which weights are not kept.
        weight = None if self.stored else self.weight
        step = max(1, len(rows) // most)
        if weight is not None:
            weight = weight[::step][:most]
        return np.asarray(rows[::step][:most]), weight

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raises what went wrong on disk, not what `tf.data` makes of it."""
        try:
            yield
        except tf.errors.OpError as error:
            failure = getattr(self.x, "failure", None)
            if failure is None:
                raise
            # Tracebacks hold the iterator; one that Python finds only when it
            # ends may wait for a thread that waits for Python.
            self.x.failure = error.__traceback__ = None
            gc.collect()
            raise failure.with_traceback(None) from None

    def hooks(self) -> list:
        """Callbacks that the source of the data needs."""
        return [] if self.source is None else self.source.hooks()


def class_weights(given: dict, num_classes: int) -> np.ndarray:
    """Weights of all classes, [C] float32; one that is not given is 1."""
    known = isinstance(given, dict) and set(given) <= set(range(num_classes))
    if not known or not all(
        config.NOT_NEGATIVE.holds(value) for value in given.values()
    ):
        raise ValueError(
            f"`class_weight` must give classes from 0 to {num_classes - 1} "
            f"finite weights >= 0, in a dictionary. Received: "
            f"class_weight={given!r:.200}."
        )
    weights = [given.get(c, 1.0) for c in range(num_classes)]
    return np.array(weights, np.float32)


def validation(data, width: int, num_classes: int, scale_free: bool = False):
    """Validation data as Keras takes it, and rows of it to look at, checked.

    Args:
        data: what `fit` got as `validation_data`: arrays (x, y) or (x, y,
            sample_weight), a `tf.data` dataset, a PyDataset or a generator;
            or None. x may be StoredRows.
        width: d.
        num_classes: C.
        scale_free: see `inputs.check_features`.

    Returns:
        Arrays, or a `tf.data` dataset; and arrays or batches.
    """
    if data is None:
        return None, None
    if TrainingData(data).is_batches:
        parts = (data,)
    elif isinstance(data, tuple | list) and len(data) in (2, 3):
        parts = tuple(data)
    else:
        raise ValueError(
            "`validation_data` must be (x, y), (x, y, sample_weight) or "
            f"batches of them. Received: {type(data).__name__}."
        )
    found = TrainingData(*parts, shuffle=False).checked(
        width, num_classes, scale_free=scale_free, several=False
    )
    if found.streamed:
        return found.x, found.look()
    if found.stored:
        return feeding.in_order(found.arrays, 256), found.arrays
    return found.arrays, found.arrays


def sample_of(found_in, most: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The first rows of (x, ...) batches, and their weights if there are."""
    found, weights, count = [], [], 0
    for x, *others in found_in:
        found.append(np.asarray(x))
        weights += [np.asarray(weight) for weight in others[1:]]
        count += len(found[-1])
        if count >= most:
            break
    weight = np.concatenate(weights)[:most] if weights else None
    return np.concatenate(found)[:most], weight
