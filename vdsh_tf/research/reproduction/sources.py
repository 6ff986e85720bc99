"""The data of the experiments, each loaded once and split alike."""

import dataclasses
import os

from vdsh_tf.data import datasets
from vdsh_tf.research.baselines import method

# Files of features: what they hold, and queries drawn from each label.
FILES = {
    "cifar10_cnn": ("cifar10_cnn128.npz", "CNN features of CIFAR-10", 100),
    "tmc2007_500": ("tmc2007_500.npz", "tmc2007_500, multi-label text", 100),
    "corel16k001": ("corel16k001.npz", "corel16k001, multi-label images", 5),
}
TITLES = {
    "digits": "digits",
    "mnist": "MNIST, pixels",
    "cifar10": "CIFAR-10, pixels",
    "cifar10_gist": "CIFAR-10, GIST",
    "cifar10_cnn": "CIFAR-10, CNN features",
    "tmc2007_500": "tmc2007_500",
    "corel16k001": "corel16k001",
}
# The data set with the images whose features a data set holds.
IMAGES = {
    "digits": "digits",
    "mnist": "mnist",
    "cifar10": "cifar10",
    "cifar10_gist": "cifar10",
    "cifar10_cnn": "cifar10",
}


class MissingDataError(RuntimeError):
    """Data that an experiment needs is not there."""


class Library:
    """Loads data sets on first use, and keeps them.

    Args:
        data_dir: prepared tensorflow-datasets folder; None for its default.
        features_dir: folder with the files of FILES; default
            VDSH_FEATURES_DIR.
        paths: of single files that lie elsewhere, by data set.
        seed: of every split.
    """

    def __init__(
        self,
        data_dir: str | None = None,
        features_dir: str | None = None,
        paths: dict[str, str] | None = None,
        seed: int = 0,
    ):
        self.data_dir = data_dir
        self.features_dir = features_dir or os.environ.get("VDSH_FEATURES_DIR")
        self.paths = {k: v for k, v in (paths or {}).items() if v}
        self.seed = seed
        self._splits: dict[tuple, datasets.Split | MissingDataError] = {}

    def split(
        self, name: str, rows: int | None = None, **protocol
    ) -> datasets.Split:
        """A data set with at most `rows` rows to train on and search in.

        Args:
            name: of a data set.
            rows: None for all.
            protocol: of `datasets.load`: `train_per_class`,
                `unseen_classes`, another `seed`.

        Raises:
            MissingDataError: says which data, and how to get it.
        """
        key = name, *sorted(protocol.items())
        if key not in self._splits:
            try:
                self._splits[key] = self._load(name, protocol)
            except (OSError, RuntimeError, ValueError) as error:
                self._splits[key] = MissingDataError(
                    f"{TITLES.get(name, name)}: {error}"
                )
        found = self._splits[key]
        if isinstance(found, MissingDataError):
            raise found
        return limited(found, rows, self.seed)

    def images(self, name: str, rows: int | None = None) -> datasets.Split:
        """The images [n, height, width, channels] behind a data set."""
        split = self.split(IMAGES[name], rows)

        def shaped(part):
            x = part.x.reshape(-1, *split.image_shape)
            return datasets.Part(x, part.y)

        return dataclasses.replace(
            split,
            query=shaped(split.query),
            train=shaped(split.train),
            validation=shaped(split.validation),
        )

    def _load(self, name, protocol):
        protocol = {"seed": self.seed, **protocol}
        if name not in FILES:
            return datasets.load(name, data_dir=self.data_dir, **protocol)
        split = datasets.load(
            "npz",
            path=self._path(name),
            queries_per_class=FILES[name][2],
            **protocol,
        )
        return dataclasses.replace(split, name=name)

    def _path(self, name):
        file, what, _ = FILES[name]
        path = self.paths.get(name)
        if path is None and self.features_dir is not None:
            path = os.path.join(self.features_dir, file)
        if path is None or not os.path.isfile(path):
            raise FileNotFoundError(
                f"{file} ({what}) must exist. Received: "
                f"{path or 'no folder'}. Give the folder that holds it as "
                "`features_dir` or VDSH_FEATURES_DIR, or the file itself as "
                f"`{name}_path`; it is an .npz file with `features` [n, d] "
                "and `labels` ([n] integers or [n, C] of 0 and 1)."
            )
        return path


def limited(split, rows: int | None, seed: int) -> datasets.Split:
    """The split with fewer rows, drawn evenly over classes.

    At most `rows` are trained on, and as many searched in where those are
    others.
    """

    def some(part):
        if part is None or rows is None or rows >= len(part):
            return part
        return part.take(method.draw_subset(part.y, rows, seed))

    return dataclasses.replace(
        split, train=some(split.train), unseen=some(split.unseen)
    )
