"""Results on disk: one JSON file per point, written atomically.

    ROOT/points/FIGURE/KEY.json   settings, result, time, versions
    ROOT/points/FIGURE/KEY.npz    arrays that other points need

A point counts as finished when its file is complete and was computed with the
settings that are asked for; anything else is computed anew. Points of version
0.1.0 are read, too.
"""

import datetime
import hashlib
import json
import os
import zipfile
from typing import NamedTuple

import numpy as np
from absl import logging

from vdsh_tf import files
from vdsh_tf.research.reproduction import networks

_FIELDS = {
    "figure": str,
    "key": str,
    "settings": dict,
    "result": dict,
    "seconds": (int, float),
    "date": str,
    "versions": dict,
}


class StorageError(RuntimeError):
    """Results cannot be written; to continue would only lose more of them."""


class Point(NamedTuple):
    """One finished computation.

    Attributes:
        figure, key: its place.
        settings: what determines the result.
        result: numbers, plain JSON.
        seconds: time it took.
        date: when it was computed, UTC.
        versions: of the packages that computed it.
        arrays: SHA-256 of its .npz file, or None without one.
    """

    figure: str
    key: str
    settings: dict
    result: dict
    seconds: float
    date: str
    versions: dict
    arrays: str | None = None


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    import keras
    import tensorflow as tf

    import vdsh_tf

    return {
        "vdsh_tf": vdsh_tf.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }


def plain(value):
    """The value as JSON gives it back, so that settings can be compared."""
    return json.loads(json.dumps(value, allow_nan=False, default=_to_plain))


class PointStore:
    """The results under one folder.

    Args:
        root: folder; created when the first point is written.
    """

    def __init__(self, root: str):
        self.root = root

    def path(self, figure: str, key: str, ending: str = "json") -> str:
        return os.path.join(self.root, "points", figure, f"{key}.{ending}")

    def read(self, figure: str, key: str) -> Point | None:
        """The point, or None if there is none or it is damaged."""
        path = self.path(figure, key)
        try:
            with open(path, encoding="utf-8") as f:
                point = _checked(json.load(f))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            logging.warning(
                "%s is damaged and counts as missing; it will be computed "
                "anew. Cause: %s",
                path,
                error,
            )
            return None
        if point.arrays is not None and not self._arrays_whole(point):
            return None
        return point

    def finished(self, figure: str, key: str, settings: dict) -> Point | None:
        """The point if it was computed with these settings, else None."""
        point = self.read(figure, key)
        if point is None or point.settings != plain(settings):
            return None
        return point

    def write(
        self,
        figure: str,
        key: str,
        settings: dict,
        result: dict,
        seconds: float,
        arrays: dict[str, np.ndarray] | None = None,
    ) -> Point:
        """Writes a point, its arrays first: the JSON file says "finished".

        Raises:
            StorageError: the disk is full or cannot be written. Points that
                are there already are as they were.
        """
        path = self.path(figure, key)
        now = datetime.datetime.now(datetime.UTC)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            digest = self._write_arrays(figure, key, arrays)
            point = Point(
                figure,
                key,
                plain(settings),
                plain(result),
                round(seconds, 2),
                now.strftime("%Y-%m-%d %H:%M"),
                versions(),
                digest,
            )
            text = json.dumps(point._asdict(), indent=1, allow_nan=False)
            files.write_text(path, text + "\n")
        except OSError as error:
            raise StorageError(
                f"{path} could not be written: {error.strerror or error}. "
                "All points finished before are safe. Free some space, or "
                "choose another folder as `root`, and run the same again: it "
                "resumes where it stopped."
            ) from error
        return point

    def arrays(self, figure: str, key: str) -> dict[str, np.ndarray]:
        """The arrays that were written with a point."""
        with np.load(self.path(figure, key, "npz"), allow_pickle=False) as data:
            return dict(data)

    def _write_arrays(self, figure, key, arrays):
        if arrays is None:
            return None
        path = self.path(figure, key, "npz")
        with files.replacing(path) as partial:
            np.savez_compressed(partial, **arrays)
        return _sha256(path)

    def _arrays_whole(self, point):
        path = self.path(point.figure, point.key, "npz")
        try:
            whole = _sha256(path) == point.arrays and zipfile.is_zipfile(path)
        except OSError:
            whole = False
        if not whole:
            logging.warning(
                "%s is missing or damaged, so its point counts as missing; "
                "it will be computed anew.",
                path,
            )
        return whole


def _checked(data):
    if not isinstance(data, dict):
        raise ValueError("it must hold one JSON object")
    for name, kind in _FIELDS.items():
        if not isinstance(data.get(name), kind):
            raise ValueError(f"`{name}` is missing or of the wrong kind")
    unknown = set(data) - set(Point._fields)
    if unknown:
        raise ValueError(f"unknown fields {sorted(unknown)}")
    return Point(
        **{**data, "settings": networks.settings_from_0_1(data["settings"])}
    )


def _sha256(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _to_plain(value):
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not plain JSON")
