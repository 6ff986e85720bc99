"""Labelled vectors by the paper's protocol: queries, database, validation.

`load("digits")` needs no network; `mnist`, `fashion_mnist` and `cifar10` come
through tensorflow-datasets, `mnist_gist` and `cifar10_gist` are GIST features
of them; `nus_wide`, `npz` and `images` read files that the user has.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from vdsh_tf import network
from vdsh_tf.data import batches
from vdsh_tf.data import inputs
from vdsh_tf.data import sources

NAMES = sources.NAMES


@dataclasses.dataclass(frozen=True)
class Part:
    """Features [n, d] as stored (raw) with labels [n] or [n, C]."""

    x: np.ndarray
    y: np.ndarray

    def __len__(self):
        return len(self.x)

    def take(self, index) -> "Part":
        return Part(self.x[index], self.y[index])


@dataclasses.dataclass(frozen=True)
class Split:
    """A data set divided for retrieval.

    Attributes:
        name: the data set's name.
        query: what is searched with; never trained on, never chosen by.
        train: what is trained on.
        validation: held out of the training part for choosing anything; may
            be empty.
        num_classes: C.
        image_shape: (height, width, channels) if rows are the pixels of
            pictures, else None.
    """

    name: str
    query: Part
    train: Part
    validation: Part
    num_classes: int
    image_shape: tuple[int, ...] | None = None

    @property
    def database(self) -> Part:
        """What is searched in: everything but the queries."""
        if not len(self.validation):
            return self.train
        return Part(
            np.concatenate([self.train.x, self.validation.x]),
            np.concatenate([self.train.y, self.validation.y]),
        )

    def validation_split(self) -> "Split":
        """Validation rows in the queries' place: to choose a setting by."""
        if not len(self.validation):
            raise ValueError(
                "There must be validation rows to choose by; there are none. "
                "Load the data with validation_per_class > 0."
            )
        empty = self.validation.take(slice(0, 0))
        return dataclasses.replace(
            self, query=self.validation, validation=empty
        )

    def train_batches(
        self,
        batch_size: int = 256,
        seed: int = 0,
        first_epoch: int = 0,
        noise: float = 0.0,
        dropout: float = 0.0,
        center: bool = False,
    ) -> tuple[tf.data.Dataset, int]:
        """Endless shuffled batches of raw rows as float32, for `fit`.

        Order and noise of an epoch depend on `seed` and its number alone, so
        that training resumed at `first_epoch` sees what it would have seen.

        Args:
            batch_size: rows in a batch, at most all.
            seed: of order and noise.
            first_epoch: number of the first epoch.
            noise, dropout: see `batches.perturb`.
            center: whether the model subtracts the mean of the rows.

        Returns:
            The dataset, and the number of batches in an epoch. A last batch
            that is not full is dropped, to keep shapes static.
        """
        mean = self.train_mean() if center else None
        return batches.shuffled(
            (self.train.x, self.train.y),
            batch_size,
            seed,
            first_epoch,
            batches.Perturbation(noise, dropout, mean),
        )

    def train_mean(self) -> np.ndarray:
        """Mean of the raw training rows, float32 [d]."""
        return self.train.x.mean(axis=0, dtype=np.float64).astype(np.float32)


def unit_rows(x):
    """Casts rows to float32 of length one."""
    return network.unit_length(tf.cast(x, tf.float32))


def load(
    name: str,
    *,
    data_dir: str | None = None,
    path: str | None = None,
    image_shape: tuple[int, ...] | None = None,
    queries_per_class: int | None = None,
    validation_per_class: int = 0,
    seed: int = 0,
) -> Split:
    """Loads a data set and splits it by the paper's protocol.

    Args:
        name: one of NAMES.
        data_dir: prepared tensorflow-datasets folder; default TFDS_DATA_DIR,
            else tfds' own. GIST features computed from it are kept in
            VDSH_CACHE_DIR, default ~/.cache/vdsh_tf, and read from there.
            For `nus_wide`: the folder of its archives, see `nus_wide`.
        path: file for `npz`: `features` [n, d] and `labels` ([n] integers or
            [n, C] multi-hot); `x`/`y` and `label` are understood too, and
            `x_train`, `y_train`, `x_test`, `y_test` are put together.
            Features that are pixels are uint8 [n, height, width, channels],
            or have an array `image_shape` of these three beside them.
            For `images`: a folder with one folder of image files per class.
        image_shape: (height, width, channels) that `images` are brought to;
            default: that of the first one.
        queries_per_class: queries drawn from each class (each label, when
            multi-label); default 100, and 20 for the small `digits`.
        validation_per_class: likewise, held out of the training part.
        seed: of the random split.
    """
    if name not in NAMES:
        raise ValueError(
            f"`name` must be one of {', '.join(NAMES)}. "
            f"Received: name={name!r}."
        )
    if queries_per_class is None:
        queries_per_class = 20 if name == "digits" else 100
    rows = sources.read(name, data_dir, path, image_shape)
    everything = Part(*inputs.check_pair(rows.x, rows.y))
    rng = np.random.default_rng(seed)
    query, rest = draw_per_class(everything, queries_per_class, rng)
    validation, train = draw_per_class(rest, validation_per_class, rng)
    classes = count_classes(everything.y)
    return Split(name, query, train, validation, classes, rows.image_shape)


def count_classes(y: np.ndarray) -> int:
    """C of labels [n], which count from 0, or multi-hot [n, C]."""
    return y.shape[1] if y.ndim == 2 else int(y.max()) + 1


def draw_per_class(part: Part, count: int, rng) -> tuple[Part, Part]:
    """Draws `count` items of every class; returns them and the rest."""
    if count < 0:
        raise ValueError(
            f"The number drawn from a class must be >= 0. Received: {count}."
        )
    drawn = np.zeros(len(part), bool)
    multi = part.y.ndim == 2
    classes = range(part.y.shape[1]) if multi else np.unique(part.y)
    for c in classes:
        member = part.y[:, c] > 0 if multi else part.y == c
        free = np.flatnonzero(member & ~drawn)
        if count and len(free) <= count:
            raise ValueError(
                f"Class {c} must have more than the {count} items asked for, "
                "or none is left to train on and to find. Received: "
                f"{len(free)} items. Ask for fewer per class."
            )
        drawn[rng.choice(free, count, replace=False)] = True
    return part.take(drawn), part.take(~drawn)
