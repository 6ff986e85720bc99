"""The interface that every hashing method in this package has."""

import abc
import dataclasses
from typing import ClassVar
from typing import TypeVar

import numpy as np

from vdsh_tf import codes
from vdsh_tf.data import inputs

_Fitted = TypeVar("_Fitted")


@dataclasses.dataclass(eq=False)
class Method(abc.ABC):
    """Learns K-bit codes from labelled rows.

    A method is a dataclass whose fields are its settings.

    Attributes:
        title: the method's name in tables and plots.
        reference: the paper it follows.
        images: whether rows are images [n, height, width, channels] of uint8;
            otherwise they are features [n, d], raw as stored.
        subset: the largest number of rows that it trains on, or None; as in
            its own paper. Of more rows this many are drawn, evenly over the
            classes.
        objective: what `fit` minimised, one number per iteration; empty for
            a method without one.

    Args:
        bits: code length K.
        seed: of everything random.
    """

    title: ClassVar[str]
    reference: ClassVar[str]
    images: ClassVar[bool] = False
    subset: ClassVar[int | None] = None

    bits: int = 64
    seed: int = 0
    objective: list[float] = dataclasses.field(
        default_factory=list, init=False, repr=False
    )

    @abc.abstractmethod
    def fit(self, x: np.ndarray, y: np.ndarray) -> "Method":
        """Trains on rows with labels [n] or multi-hot [n, C]."""

    @abc.abstractmethod
    def project(self, x: np.ndarray) -> np.ndarray:
        """[n, K] real numbers; a bit is on where its number is > 0."""

    def encode(self, x: np.ndarray) -> np.ndarray:
        """Packed codes: [n, ceil(K/8)] uint8."""
        return codes.pack(self.project(x) > 0)

    def prepare(self, x, y):
        """What `fit` of a method on features starts from.

        Returns:
            Unit-length rows [n, d], at most `subset` of them; their labels
            [n, C]; and the random generator of the seed.
        """
        x, y = np.asarray(x), np.asarray(y)
        if self.subset is not None:
            rows = draw_subset(y, self.subset, self.seed)
            x, y = x[rows], y[rows]
        rng = np.random.default_rng(self.seed)
        return unit_rows(x), label_matrix(y), rng


def require_fitted(value: _Fitted | None) -> _Fitted:
    """What `fit` has set, or an error if it is still None."""
    if value is None:
        raise ValueError("`fit` must come before `project` and `encode`.")
    return value


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
    """Indices of at most `count` rows, equally many of each class.

    Rows with several labels are drawn without regard to their labels.
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
