"""The interface that every hashing method in this package has."""

import abc
from typing import ClassVar

import numpy as np

from vdsh_tf import codes
from vdsh_tf.data import inputs


class Method(abc.ABC):
    """Learns K-bit codes from labelled rows.

    Attributes:
        title: the method's name in tables and pictures.
        reference: the paper it follows.
        images: whether rows are images [n, height, width, channels] of uint8;
            otherwise they are features [n, d], raw as stored.
        subset: most rows it trains on, or None; its own paper's habit. More
            are cut to this many, drawn evenly over the classes.
        objective: what `fit` minimised, a number an iteration; empty for a
            method without one.

    Args:
        bits: code length K.
        seed: of everything random.
    """

    title: ClassVar[str]
    reference: ClassVar[str]
    images: ClassVar[bool] = False
    subset: ClassVar[int | None] = None

    def __init__(self, bits: int = 64, seed: int = 0):
        self.bits = bits
        self.seed = seed
        self.objective: list[float] = []

    @abc.abstractmethod
    def fit(self, x: np.ndarray, y: np.ndarray) -> "Method":
        """Trains on rows with labels [n] or multi-hot [n, C]."""

    @abc.abstractmethod
    def project(self, x: np.ndarray) -> np.ndarray:
        """[n, K] real numbers; a bit is on where its number is > 0."""

    def encode(self, x: np.ndarray) -> np.ndarray:
        """Packed codes: [n, ceil(K/8)] uint8."""
        return codes.pack(self.project(x) > 0)


def label_matrix(y: np.ndarray) -> np.ndarray:
    """Labels as {0, 1} rows: [n] or [n, C] -> [n, C] float32."""
    y = np.asarray(y)
    if y.ndim == 2:
        return (y > 0).astype(np.float32)
    return np.eye(int(y.max()) + 1, dtype=np.float32)[y]


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Rows of length one as float32; a row of zeros stays zero."""
    x = inputs.check_features(x).astype(np.float32)
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.maximum(norm, np.finfo(np.float32).tiny)


def draw_subset(y: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Indices of at most `count` rows, as many of each class as can be.

    Rows with several labels are drawn without regard to them.
    """
    rng = np.random.default_rng(seed)
    y = np.asarray(y)
    if len(y) <= count:
        return np.arange(len(y))
    if y.ndim == 2:
        return np.sort(rng.choice(len(y), count, replace=False))
    classes = np.unique(y)
    each = count // len(classes)
    drawn = [
        rng.permutation(np.flatnonzero(y == label))[:each] for label in classes
    ]
    return np.sort(np.concatenate(drawn))
