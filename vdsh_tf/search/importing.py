"""Codes from files into an index: piece by piece, and restartable.

An import is a union. Rows that the index already has, with the same code
under the same id, are skipped, so an import that was interrupted anywhere is
resumed by doing it again; another code under a known id is an error.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from vdsh_tf import config
from vdsh_tf.search.hamming import HammingIndex

# Rows in memory at a time.
ROWS = 1 << 16


class Source(Protocol):
    """Codes with their ids, such as `encoding.code_parts.CodeParts`."""

    bits: int

    def __len__(self) -> int: ...

    def pieces(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]: ...


def fill(
    index,
    source: Source,
    resume: bool = False,
    progress: Callable[[int], None] | None = None,
    rows: int = ROWS,
) -> int:
    """Adds all codes of a source; returns how many were added.

    Args:
        index: a `HammingIndex` or a `MilvusIndex`.
        source: what to add.
        resume: whether rows that the index has are skipped; False refuses
            ids that it has.
        progress: called with the number of rows done.
        rows: in memory at a time.
    """
    if isinstance(index, HammingIndex):
        check_memory(len(index) + len(source), source.bits)
    done = added = 0
    for codes, ids in source.pieces(rows):
        if resume:
            added += index.add_missing(codes, ids)
        else:
            index.add(codes, ids)
            added += len(codes)
        done += len(codes)
        if progress is not None:
            progress(done)
    return added


def check_memory(count: int, bits: int) -> None:
    """Raises if so many codes cannot be in memory, whatever the kind."""
    # The code and its id, and the ids once more while they are joined.
    config.require_memory(
        count * ((bits + 7) // 8 + 16),
        f"An index of {count} codes of {bits} bits that is not mapped",
        "Write a mapped index, or use Milvus.",
    )


@contextlib.contextmanager
def spooled(
    source: Source,
    folder: str,
    progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields all codes and ids as arrays that lie on disk, not in memory.

    Their files have no name, so that nothing is left of them, however the
    process ends.

    Args:
        source: what to read.
        folder: on a disk with room for them.
        progress: called with the number of rows done.
    """
    count, width = len(source), (source.bits + 7) // 8
    with (
        tempfile.TemporaryFile(dir=folder or os.curdir) as first,
        tempfile.TemporaryFile(dir=folder or os.curdir) as second,
    ):
        done = 0
        for codes, ids in source.pieces(ROWS):
            first.write(np.ascontiguousarray(codes).data)
            second.write(np.ascontiguousarray(ids).data)
            done += len(codes)
            if progress is not None:
                progress(done)
        first.flush()
        second.flush()
        if done != count:
            raise ValueError(
                f"There must be {count} codes, as the files say. Received: "
                f"{done}. Did a file change meanwhile?"
            )
        if not count:
            yield np.zeros((0, width), np.uint8), np.zeros(0, np.int64)
            return
        yield (
            np.memmap(first, np.uint8, "r", shape=(count, width)),
            np.memmap(second, np.int64, "r", shape=(count,)),
        )
