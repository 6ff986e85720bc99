"""What every format of shards gives: its layout, and blocks of rows."""

import abc
import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# Bytes of features in a block: small beside a buffer of shuffled rows, and
# large beside what it costs to open a file.
_BLOCK = 1 << 20
_FEWEST, _MOST = 64, 8192


class Block(NamedTuple):
    """Consecutive rows of a shard.

    Attributes:
        x: [n, d] features as stored.
        y: [n] or [n, C], labels; None where they were not asked for.
        key: [n] integers, bytes or text, or None.
    """

    x: np.ndarray
    y: np.ndarray | None = None
    key: np.ndarray | None = None


class Layout(NamedTuple):
    """What the head or foot of a shard says.

    Attributes:
        width: d.
        dtype: of the features.
        columns: C of multi-hot labels; 0 for one integer per row.
        pieces: rows in each piece that can be read on its own; None where the
            shard is read from its beginning to its end.
        image_shape: (height, width, channels) if rows are pixels, else None.
    """

    width: int
    dtype: np.dtype
    columns: int
    pieces: tuple[int, ...] | None
    image_shape: tuple[int, ...] | None = None


class Shard(abc.ABC):
    """A file of rows, or what is read like one.

    Attributes:
        name: to be found and shown by.
        remote: whether every look at it costs time.
    """

    name: str
    remote: bool = False

    @abc.abstractmethod
    def stamp(self) -> str:
        """A text that changes with the shard; raises OSError if it is gone."""

    @abc.abstractmethod
    def layout(self) -> Layout:
        """Reads as little as possible; raises ShardError."""

    @abc.abstractmethod
    def read(
        self, start: int = 0, stop: int | None = None, labels: bool = True
    ) -> Iterator[Block]:
        """Blocks of the rows from `start` to `stop`, bounds of pieces."""


def block_rows(width: int, dtype: np.dtype) -> int:
    """Rows in a block, a function of their size alone."""
    return min(_MOST, max(_FEWEST, _BLOCK // (width * dtype.itemsize)))


class ShardError(ValueError):
    """A shard that cannot be used; the text names it and says why."""


@contextlib.contextmanager
def reading(name: str, kind: str, errors: tuple = ()) -> Iterator[None]:
    """Says which file could not be read, and what it must be.

    Args:
        name: of the shard.
        kind: what it must be, such as "a complete Parquet file ...".
        errors: what its library raises beside ValueError and OSError.
    """
    try:
        yield
    except ShardError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{name} must be there as long as its rows are used, and is gone. "
            "Bring it back and resume, or begin anew without it."
        ) from error
    except (ValueError, OSError, *errors) as error:
        raise ShardError(
            f"{name} must be {kind}. It is damaged, or of another kind: write "
            f"it again, or leave it out. Cause: {type(error).__name__}: {error}"
        ) from error
