"""A prepared folder: all that a service or a site needs of a run.

encoder.onnx      what makes codes
index.npz         the items' codes
items.sqlite      payloads, and what is added and removed later
embeddings.npy    [n, K] float16, for re-ranking
pictures.npy      [n, height, width, channels] uint8, where rows are pictures
map.json          a sample of the items on a plane, with codes and labels
about.json        written last: what the others belong to
"""

import dataclasses
import json
import os
import pathlib
from typing import Any

import numpy as np

from vdsh_tf.data import streams

ABOUT = "about.json"
ENCODER = "encoder.onnx"
INDEX = "index.npz"
ITEMS = "items.sqlite"
EMBEDDINGS = "embeddings.npy"
PICTURES = "pictures.npy"
MAP = "map.json"
PAGE = pathlib.Path(__file__).parent / "page"
PAGE_FILES = tuple(sorted(p.name for p in PAGE.iterdir() if p.is_file()))


@dataclasses.dataclass(frozen=True)
class About:
    """What is served, beside encoder and index.

    Attributes:
        title: a name to show.
        fingerprint: of the encoder; "" if not known here.
        image_shape: (height, width, channels) if rows are pictures.
        peak: largest value of such a row.
        fill: part of a picture's side that what it shows takes.
        ink: whether pictures show bright strokes on black, as digits do.
        label: field of the payload that tells classes apart, or None.
        pictures: of the items 0 to n - 1, or None.
        map: path of map.json, or None.
    """

    title: str = "Search"
    fingerprint: str = ""
    image_shape: tuple[int, ...] | None = None
    peak: float = 255.0
    fill: float = 1.0
    ink: bool = False
    label: str | None = None
    pictures: np.ndarray | None = None
    map: str | None = None

    def pixels(self, number: int) -> np.ndarray | None:
        """The picture of an item, if there is one."""
        if self.pictures is None or not 0 <= number < len(self.pictures):
            return None
        return np.array(self.pictures[number])

    def to_json(self) -> dict[str, Any]:
        """What about.json keeps."""
        names = {field.name for field in dataclasses.fields(self)}
        kept = sorted(names - {"pictures", "map"})
        return {name: getattr(self, name) for name in kept}


def read(folder: str) -> About:
    """What a prepared folder holds.

    Raises:
        FileNotFoundError: it is none.
        ValueError: it is damaged.
    """
    path = os.path.join(folder, ABOUT)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"{folder} must be a folder that `python tools/prepare.py` made, "
            f"with {ABOUT}. Prepare a run first."
        )
    try:
        with open(path) as f:
            stated = json.load(f)
        shape = stated.pop("image_shape")
        about = About(
            **stated, image_shape=None if shape is None else tuple(shape)
        )
        pictures = os.path.join(folder, PICTURES)
        if os.path.exists(pictures):
            mapped = streams.map_file(pictures)
            if about.image_shape != mapped.shape[1:]:
                raise ValueError(f"{PICTURES} holds {mapped.shape}")
            about = dataclasses.replace(about, pictures=mapped)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(
            f"{folder} must be a whole prepared folder, but is damaged. "
            f"Remove it and prepare again. Cause: {error}"
        ) from error
    drawn = os.path.join(folder, MAP)
    return dataclasses.replace(
        about, map=drawn if os.path.exists(drawn) else None
    )


def embeddings(folder: str) -> np.ndarray | None:
    """Embeddings of the items, mapped from their file, if there are any."""
    path = os.path.join(folder, EMBEDDINGS)
    return streams.map_file(path) if os.path.exists(path) else None


def page_file(name: str) -> str:
    """Path of a file of the page."""
    return str(PAGE / name)
