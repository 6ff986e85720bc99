"""Labelled vectors, split for retrieval: queries, database, validation.

`load("digits")` needs no network; `mnist`, `fashion_mnist` and `cifar10` come
through tensorflow-datasets, `mnist_gist` and `cifar10_gist` are GIST features
of them; `nus_wide`, `npz` and `images` read files that the user has. `shards`
and `tfds:NAME` stay on disk, and may be larger than memory.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from vdsh_tf import config
from vdsh_tf import network
from vdsh_tf.data import batches
from vdsh_tf.data import inputs
from vdsh_tf.data import protocols
from vdsh_tf.data import sources
from vdsh_tf.data.protocols import Part
from vdsh_tf.data.shards import feeding
from vdsh_tf.data.shards import opening

NAMES = sources.NAMES
QUERY_SHARE = 0.01


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
        protocol: "paper", or that of `protocols` with its value, such as
            "train_per_class=500"; "-validation" follows where queries are
            validation rows.
        unseen: what is searched in, if it is not what was trained on.
        trained_query: queries of the classes that were trained on, if
            `query` has others.
        seed: of the split.
    """

    name: str
    query: Part
    train: Part
    validation: Part
    num_classes: int
    image_shape: tuple[int, ...] | None = None
    protocol: str = "paper"
    unseen: Part | None = None
    trained_query: Part | None = None
    seed: int = 0

    @property
    def trained_task(self) -> tuple[Part, Part] | None:
        """Queries and rows for a second figure: what was trained on.

        None by the paper's protocol, where that is the first figure.
        """
        if self.unseen is None:
            return None
        return self.trained_query or self.query, self.train

    @property
    def database(self) -> Part:
        """What is searched in; by the paper, everything but the queries."""
        if self.unseen is not None:
            return self.unseen
        if not len(self.validation):
            return self.train
        return self.train.joined(self.validation)

    def validation_split(self) -> "Split":
        """Validation rows in the queries' place: to choose a setting by.

        Where classes are unseen, so are some of the trained ones here.
        """
        if not len(self.validation):
            raise ValueError(
                "There must be validation rows to choose by; there are none. "
                "Load the data with validation_per_class > 0."
            )
        empty = self.validation.take(slice(0, 0))
        if self.trained_query is not None:
            count = len(np.unique(self.query.y))
            held = protocols.hold_out_classes(self.train, count, self.seed)
            return dataclasses.replace(
                _without_classes(self, self.validation, self.train, held),
                validation=empty,
                protocol=f"{self.protocol}-validation",
            )
        return dataclasses.replace(
            self,
            query=self.validation,
            validation=empty,
            protocol=f"{self.protocol}-validation",
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
        return feeding.shuffled(
            (self.train.x, self.train.y),
            batch_size,
            seed,
            first_epoch,
            batches.Perturbation(noise, dropout, mean),
        )

    def train_mean(self) -> np.ndarray:
        """Mean of the raw training rows, float32 [d].

        Of rows that stay on disk, the mean of a sample.
        """
        x = self.train.x
        rows = x if isinstance(x, np.ndarray) else x.sample()
        return rows.mean(axis=0, dtype=np.float64).astype(np.float32)


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
    train_per_class: int | None = None,
    unseen_classes: str | None = None,
    query_share: float | None = None,
    validation_share: float = 0.0,
    seed: int | None = 0,
) -> Split:
    """Loads a data set and splits it, by the paper's protocol if not told.

    Args:
        name: one of NAMES; "tfds:NAME" is any data set that
            tensorflow-datasets has prepared, "tfds:NAME[train+test]" some of
            its splits.
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
            For `shards`: .parquet, .npy or .tfrecord files, as a folder, a
            pattern or an fsspec URL; see docs/scaling.md.
        image_shape: (height, width, channels) that `images` are brought to;
            default: that of the first one.
        queries_per_class: queries drawn from each class (each label, when
            multi-label); default 100, and 20 for the small `digits`.
        validation_per_class: likewise, held out of the training part.
        train_per_class: rows of each class to train on; the others are
            searched in. Of several labels, rows for each.
        unseen_classes: classes that are not trained on, "7,8,9" or a share
            such as "0.3"; queries and what is searched in are theirs.
        query_share, validation_share: for `shards` and `tfds:NAME`, instead
            of rows per class: shares of the rows, drawn by a hash of their
            key, so that they stay the same when data is added. Default 0.01
            and 0.
        seed: of the random split; None draws one, which `Split.seed` has.
    """
    seed = config.seed(seed)
    stored = opening.is_stored(name)
    if name not in NAMES and not stored:
        raise ValueError(
            f"`name` must be one of {', '.join(NAMES)}. "
            f"Received: name={name!r}."
        )
    if stored and (queries_per_class is not None or validation_per_class):
        raise ValueError(
            f"Rows of {name!r} must be held out by shares, `query_share` and "
            "`validation_share`, so that they stay the same when data is "
            "added. Received: queries or validation rows per class."
        )
    if not stored and (query_share is not None or validation_share):
        raise ValueError(
            "`query_share` and `validation_share` are for `shards` and "
            f"`tfds:NAME`. Received: data {name!r}. Use `queries_per_class` "
            "and `validation_per_class`."
        )
    if queries_per_class is None:
        queries_per_class = 20 if name == "digits" else 100
    if query_share is None:
        query_share = QUERY_SHARE
    if train_per_class is not None and unseen_classes is not None:
        raise ValueError(
            "A split follows one protocol. Received: both `train_per_class` "
            "and `unseen_classes`. Give one of them."
        )
    rows = sources.read(name, data_dir, path, image_shape)
    rng = np.random.default_rng(seed)
    if stored:
        # Its rows were checked in the pass over the data.
        everything = Part(rows.x, inputs.check_labels(rows.y))
        query, validation, train = protocols.draw_by_hash(
            everything, query_share, validation_share, seed
        )
    else:
        everything = Part(*inputs.check_pair(rows.x, rows.y))
        query, rest = protocols.draw_per_class(
            everything, queries_per_class, rng
        )
        validation, train = protocols.draw_per_class(
            rest, validation_per_class, rng
        )
    classes = count_classes(everything.y)
    split = Split(
        name, query, train, validation, classes, rows.image_shape, seed=seed
    )
    if train_per_class is not None:
        train, unseen = protocols.draw_per_class(train, train_per_class, rng)
        return dataclasses.replace(
            split,
            train=train,
            unseen=unseen,
            protocol=f"train_per_class={train_per_class}",
        )
    if unseen_classes is not None:
        held = protocols.parse_classes(unseen_classes, everything.y, seed)
        return dataclasses.replace(
            _without_classes(split, query, train, held),
            protocol=f"unseen_classes={','.join(map(str, held))}",
        )
    return split


def _without_classes(split: Split, query: Part, rows: Part, held) -> Split:
    """The split that does not train on the classes `held`.

    Args:
        split: what is changed.
        query: queries of all classes.
        rows: all other rows, of all classes.
        held: the classes; queries and database are theirs.
    """
    left = np.setdiff1d(rows.y, held)

    def seen(part):
        return protocols.renumbered(part.of_classes(left), left)

    return dataclasses.replace(
        split,
        query=query.of_classes(held),
        train=seen(rows),
        validation=seen(split.validation),
        unseen=rows.of_classes(held),
        trained_query=seen(query),
        num_classes=len(left),
    )


def count_classes(y: np.ndarray) -> int:
    """C of labels [n], which count from 0, or multi-hot [n, C]."""
    return y.shape[1] if y.ndim == 2 else int(y.max()) + 1
