"""TrainingData: what `fit` was given, checked, and made into batches."""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from vdsh_tf.data import batches
from vdsh_tf.data import inputs
from vdsh_tf.data import python_batches
from vdsh_tf.data import tensors


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """Arrays, or batches in the place of x.

    Attributes:
        x: [n, d] array; or batches (x, y) or (x, y, weight) in a `tf.data`
            dataset, a `keras.utils.PyDataset` or a generator, of which
            `checked` makes a dataset.
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
        self, width: int | None, num_classes: int, seed: int = 0
    ) -> "TrainingData":
        """The same after checks of features, labels and weights.

        Args:
            width: d, if the network is built already.
            num_classes: C.
            seed: of the order of a PyDataset's batches.
        """
        x, source = self.x, None
        if python_batches.is_python(x):
            source = python_batches.wrap(x, self.shuffle, seed)
            x = source.dataset()
        if isinstance(x, tf.data.Dataset):
            self._check_alone()
            x = tensors.checked_dataset(x, width, num_classes)
            return dataclasses.replace(self, x=x, source=source)
        x, y = inputs.check_pair(self.x, self.y, width, num_classes)
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
    def streamed(self) -> bool:
        """Whether the data is a dataset."""
        return isinstance(self.x, tf.data.Dataset)

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
            dataset, steps = batches.shuffled(
                self.arrays, size, seed, epoch, perturbation
            )
            return {"x": dataset, "steps_per_epoch": steps, **fixed}
        dataset = tf.data.Dataset.from_tensor_slices(self.arrays).batch(size)
        dataset = batches.perturbed(dataset, perturbation, seed, epoch)
        return {"x": dataset, **fixed}

    def look(self):
        """What can be looked at before training: an array, or batches."""
        return self.x if self.source is None else self.source.look()

    def rows(self, most: int) -> np.ndarray:
        """Up to `most` rows, evenly spread over arrays, first of batches."""
        if self.streamed:
            return sample_rows(self.look(), most)
        step = max(1, len(self.x) // most)
        return np.asarray(self.x[::step][:most])

    def hooks(self) -> list:
        """Callbacks that the source of the data needs."""
        return [] if self.source is None else self.source.hooks()


def class_weights(given: dict, num_classes: int) -> np.ndarray:
    """Weights of all classes, [C] float32; one that is not given is 1."""
    unknown = set(given) - set(range(num_classes))
    if unknown or not all(0 <= value < np.inf for value in given.values()):
        raise ValueError(
            f"`class_weight` must give classes from 0 to {num_classes - 1} "
            f"finite weights >= 0. Received: class_weight={given}."
        )
    weights = [given.get(c, 1.0) for c in range(num_classes)]
    return np.array(weights, np.float32)


def validation(data):
    """Validation data as Keras takes it, and rows of it to look at.

    Args:
        data: what `fit` got as `validation_data`: arrays (x, y) or (x, y,
            sample_weight), a `tf.data` dataset, a PyDataset or a generator.

    Returns:
        Arrays, or a `tf.data` dataset; and arrays or batches.
    """
    if not python_batches.is_python(data):
        return data, data
    source = python_batches.wrap(data)
    return source.dataset(), source.look()


def sample_rows(found_in, most: int) -> np.ndarray:
    """The first rows of (x, ...) batches."""
    found, count = [], 0
    for element in found_in:
        found.append(np.asarray(element[0]))
        count += len(found[-1])
        if count >= most:
            break
    return np.concatenate(found)[:most]
