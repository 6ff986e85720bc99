"""Catalogs on disk: beside the data, or where this machine keeps such things.

A kept catalog is used for shards that have neither changed nor gone; only new
ones are read. Where one has, all are read again.
"""

import hashlib
import json
import os
import warnings
import zipfile
from collections.abc import Sequence

import numpy as np

from vdsh_tf import files
from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards import surveying
from vdsh_tf.data.shards.catalog import Catalog
from vdsh_tf.data.shards.catalog import Entry
from vdsh_tf.data.shards.catalog import Sample

_VERSION = 1
_ARRAYS = ("labels", "content", "key", "zeros")
_SAMPLE = ("order", "shard", "place", "x")
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
)


def open_catalog(shards: Sequence[formats.Shard], source: str) -> Catalog:
    """The catalog of shards: a kept one, or made by a pass and kept.

    Args:
        shards: all, in the order of their names.
        source: the path, pattern or name that they were found by.
    """
    import tqdm

    place = place_of(shards, source)
    known = _known(place, shards)
    if known is not None and len(known.entries) == len(shards):
        return known
    with tqdm.tqdm(
        desc=f"Reading {source} once", unit=" rows", mininterval=1, disable=None
    ) as bar:
        made = surveying.survey(shards, known, bar.update)
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with files.replacing(place) as partial:
            _write(partial, made)
    except OSError as error:
        warnings.warn(
            f"What is known of {source} could not be kept in {place}, and the "
            f"next run reads all of it again. Cause: {error}",
            stacklevel=4,
        )
    return made


def place_of(shards: Sequence[formats.Shard], source: str) -> str:
    """File that keeps the catalog: beside local data, else in the cache."""
    folder = os.path.dirname(os.path.abspath(shards[0].name))
    local = os.path.isfile(shards[0].name)
    if not local or not os.access(folder, os.W_OK):
        folder = os.environ.get("VDSH_CACHE_DIR") or os.path.join(
            os.path.expanduser("~"), ".cache", "vdsh_tf"
        )
    # Other patterns of the same folder have catalogs of their own.
    local_source = os.path.abspath(source) if local else source
    digest = hashlib.sha256(local_source.encode()).hexdigest()[:12]
    return os.path.join(folder, f".vdsh-catalog-{digest}.npz")


def _known(place, shards):
    """What is kept, if all of it still holds."""
    if not os.path.isfile(place):
        return None
    try:
        kept = _read(place)
    except _DAMAGE as error:
        warnings.warn(
            f"{place} is damaged; the data is read again. Cause: {error}",
            stacklevel=5,
        )
        return None
    stamps = {shard.name: shard.stamp() for shard in shards}
    if all(stamps.get(entry.name) == entry.stamp for entry in kept.entries):
        return kept
    return None


def _write(path, catalog):
    layout = catalog.layout
    about = {
        "version": _VERSION,
        "width": layout.width,
        "dtype": layout.dtype.str,
        "columns": layout.columns,
        "image_shape": layout.image_shape,
        "names": [entry.name for entry in catalog.entries],
        "stamps": [entry.stamp for entry in catalog.entries],
        "rows": [len(entry) for entry in catalog.entries],
        "zeros": [len(entry.zeros) for entry in catalog.entries],
        "pieces": [entry.pieces for entry in catalog.entries],
    }
    joined = {
        name: np.concatenate([getattr(e, name) for e in catalog.entries])
        for name in _ARRAYS
    }
    sample = {f"sample_{n}": getattr(catalog.sample, n) for n in _SAMPLE}
    np.savez(path, about=np.array(json.dumps(about)), **joined, **sample)


def _read(path):
    with np.load(path, allow_pickle=False) as data:
        arrays = dict(data)
    about = json.loads(str(arrays["about"]))
    if about["version"] != _VERSION:
        raise ValueError(f"it is of version {about['version']}")
    shape = about["image_shape"]
    layout = formats.Layout(
        about["width"],
        np.dtype(about["dtype"]),
        about["columns"],
        None,
        shape and tuple(shape),
    )
    ends = np.cumsum(about["rows"])[:-1]
    rows = {n: np.split(arrays[n], ends) for n in ("labels", "content")}
    keyed = len(arrays["key"]) > 0
    rows["key"] = np.split(arrays["key"], ends if keyed else 0 * ends)
    rows["zeros"] = np.split(arrays["zeros"], np.cumsum(about["zeros"])[:-1])
    entries = tuple(
        Entry(name, stamp, tuple(pieces), *(rows[n][i] for n in _ARRAYS))
        for i, (name, stamp, pieces) in enumerate(
            zip(about["names"], about["stamps"], about["pieces"], strict=True)
        )
    )
    _check(entries, arrays, layout, about)
    sample = Sample(*(arrays[f"sample_{name}"] for name in _SAMPLE))
    return Catalog(layout, entries, sample)


def _check(entries, arrays, layout, about):
    """Raises unless the parts of a kept catalog fit together."""
    count = sum(about["rows"])
    fits = (
        entries
        and len(arrays["labels"]) == len(arrays["content"]) == count
        and len(arrays["key"]) in (0, count)
        and all(sum(e.pieces) == len(e) > 0 for e in entries)
        and all((e.zeros < len(e)).all() for e in entries)
        and arrays["sample_x"].shape[1:] == (layout.width,)
        and len({len(arrays[f"sample_{n}"]) for n in _SAMPLE}) == 1
        and set(arrays["sample_shard"]) <= {e.name for e in entries}
    )
    if not fits:
        raise ValueError("its parts do not fit together")
