"""Hits of a search as files: CSV, JSON, and a picture."""

import contextlib
import csv
import json
import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from typing import IO

import numpy as np

from vdsh_tf import files
from vdsh_tf.data import streams
from vdsh_tf.evaluation import plots
from vdsh_tf.search.searcher import Hits


@contextlib.contextmanager
def writer(path: str | None) -> Iterator[Callable[[Hits], None]]:
    """Yields a function that writes the hits of one batch after the other.

    Args:
        path: `.csv` or `.json`, written atomically; None writes CSV to
            standard output.
    """
    if path is None:
        yield _CsvWriter(sys.stdout)
        return
    kinds: dict[str, type[_Writer]] = {
        ".csv": _CsvWriter,
        ".json": _JsonWriter,
    }
    ending = os.path.splitext(path)[1]
    if ending not in kinds:
        raise ValueError(
            f"The output must end in .csv or .json. Received: {path}."
        )
    with files.replacing(path) as partial, open(partial, "w", newline="") as f:
        write = kinds[ending](f)
        yield write
        write.close()


class Plot:
    """Collects the first queries and their hits for a picture."""

    _COLUMNS = 9

    def __init__(self, path: str, rows: int, database, image_shape):
        if image_shape is None:
            raise ValueError(
                "A picture needs rows that are images, and their "
                "`image_shape`. Received: rows of features. Do without it."
            )
        if rows < 1:
            raise ValueError(f"There must be a row to plot. Received: {rows}.")
        self._path = path
        self._rows = rows
        self._database = database
        self._image_shape = image_shape
        self._queries: list[np.ndarray] = []
        self._hits: Hits = []

    def add(self, queries: np.ndarray, hits: Hits) -> None:
        """Takes a batch, or as much of it as there is room for."""
        room = self._rows - len(self._queries)
        self._queries.extend(queries[:room])
        self._hits.extend(
            (d[: self._COLUMNS], i[: self._COLUMNS]) for d, i in hits[:room]
        )

    def draw(self) -> None:
        """Writes the picture."""
        ids = np.unique(np.concatenate([ids for _, ids in self._hits]))
        streams.check_rows(ids, self._database.shape[0], "the database")
        pictures = self._database.take(ids)
        found = [pictures[np.searchsorted(ids, i)] for _, i in self._hits]
        captions = [
            [f"{self._name(i)}\n{d} bits" for d, i in zip(*hits, strict=True)]
            for hits in self._hits
        ]
        plots.neighbors(
            self._queries, found, self._image_shape, captions, self._path
        )

    def _name(self, number):
        names = self._database.names
        return names[number] if names else f"id {number}"


class _Writer:
    """Writes hits to an open file; `close` completes it, but leaves it open."""

    def __init__(self, file: IO[str]):
        self._file = file
        self._query = 0

    def __call__(self, hits: Hits) -> None:
        for distances, ids in hits:
            self._write(distances.tolist(), ids.tolist())
            self._query += 1

    def close(self) -> None:
        pass

    def _write(self, distances: list[int], ids: list[int]) -> None:
        raise NotImplementedError


class _CsvWriter(_Writer):
    def __init__(self, file):
        super().__init__(file)
        self._rows = csv.writer(file)
        self._rows.writerow(["query", "rank", "id", "distance"])

    def _write(self, distances, ids):
        pairs = zip(ids, distances, strict=True)
        for rank, pair in enumerate(pairs, start=1):
            self._rows.writerow([self._query, rank, *pair])


class _JsonWriter(_Writer):
    def close(self):
        self._file.write("\n]\n" if self._query else "[]\n")

    def _write(self, distances, ids):
        entry = {"query": self._query, "ids": ids, "distances": distances}
        self._file.write(",\n" if self._query else "[\n")
        json.dump(entry, self._file)
