"""TrainingData: what `fit` was given, checked, and made into batches."""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from vdsh_tf.data import batches
from vdsh_tf.data import inputs
from vdsh_tf.data import tensors


def default_batch_size(rows: int) -> int:
    """A power of two from 16 to 256, such that an epoch has 25 steps."""
    steps = max(1, rows // 25)
    return min(256, max(16, 2 ** (steps.bit_length() - 1)))


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """Arrays, or a `tf.data` dataset in the place of x.

    Attributes:
        x: [n, d] array, or a dataset of (x, y) or (x, y, weight) batches.
        y: [n] or [n, C], or None.
        weight: [n] sample weights, or None.
        batch_size: rows in a batch; None chooses by the number of rows.
        shuffle: whether arrays are shuffled before every epoch.
    """

    x: Any
    y: Any = None
    weight: Any = None
    batch_size: int | None = None
    shuffle: bool = True

    def checked(self, width: int | None, num_classes: int) -> "TrainingData":
        """The same after checks of features, labels and weights.

        Args:
            width: d, if the network is built already.
            num_classes: C.
        """
        if self.streamed:
            x = tensors.checked_dataset(self.x, width, num_classes)
            return dataclasses.replace(self, x=x)
        x, y = inputs.check_pair(self.x, self.y, width, num_classes)
        weight = inputs.check_weights(self.weight, len(x))
        return dataclasses.replace(self, x=x, y=y, weight=weight)

    @property
    def streamed(self) -> bool:
        """Whether the data is a dataset."""
        return isinstance(self.x, tf.data.Dataset)

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
        arrays = (self.x, self.y, self.weight)
        first, last = (
            tuple(None if a is None else a[part] for a in arrays)
            for part in (slice(at), slice(at, None))
        )
        kept = dataclasses.replace(
            self, **dict(zip(("x", "y", "weight"), first, strict=True))
        )
        return kept, last if last[2] is not None else last[:2]

    def arguments(self, seed, first_epoch, perturbation) -> dict:
        """Keywords of `keras.Model.fit` that train on this data.

        Args:
            seed: of order and noise.
            first_epoch: number of the first epoch.
            perturbation: `batches.Perturbation` of the rows.
        """
        if self.streamed:
            dataset = batches.perturbed(self.x, perturbation, seed)
            return {"x": dataset, "shuffle": False}
        size = self.batch_size or default_batch_size(len(self.x))
        arrays = tuple(
            a for a in (self.x, self.y, self.weight) if a is not None
        )
        if self.shuffle:
            dataset, steps = batches.shuffled(
                arrays, size, seed, first_epoch, perturbation
            )
            return {"x": dataset, "steps_per_epoch": steps, "shuffle": False}
        dataset = tf.data.Dataset.from_tensor_slices(arrays).batch(size)
        dataset = batches.perturbed(dataset, perturbation, seed)
        return {"x": dataset, "shuffle": False}

    def rows(self, most: int) -> np.ndarray:
        """Up to `most` rows, evenly spread over arrays, first of a dataset."""
        if self.streamed:
            return sample_rows(self.x, most)
        step = max(1, len(self.x) // most)
        return np.asarray(self.x[::step][:most])


def sample_rows(dataset: tf.data.Dataset, most: int) -> np.ndarray:
    """The first rows of a dataset of (x, ...) batches."""
    found, count = [], 0
    for element in dataset:
        found.append(np.asarray(element[0]))
        count += len(found[-1])
        if count >= most:
            break
    return np.concatenate(found)[:most]
