"""Where the vectors and labels of `datasets.load` come from."""

import os
import socket
import urllib.parse
import warnings
import zipfile
from typing import Any
from typing import NamedTuple

import numpy as np

from vdsh_tf import files
from vdsh_tf.data import gist
from vdsh_tf.data import images
from vdsh_tf.data import npz_files
from vdsh_tf.data import nus_wide
from vdsh_tf.data.shards import opening

TFDS_NAMES = ("mnist", "fashion_mnist", "cifar10")
# Name of the GIST features of a data set, and its images.
GIST_OF = {"mnist_gist": "mnist", "cifar10_gist": "cifar10"}
NAMES = (
    "digits",
    *TFDS_NAMES,
    *GIST_OF,
    "nus_wide",
    "npz",
    "images",
    opening.SHARDS,
    "tfds:NAME",
)
_FEATURE_KEYS = ("features", "x")
_LABEL_KEYS = ("labels", "label", "y")
_PARTS = ("x_train", "y_train", "x_test", "y_test")
_NPZ_ROWS = (*_FEATURE_KEYS, *_LABEL_KEYS, *_PARTS)


class Rows(NamedTuple):
    """A whole data set.

    Attributes:
        x: [n, d], features as stored: an array, or StoredRows.
        y: [n] or [n, C], labels.
        image_shape: (height, width, channels) if rows are the pixels of
            pictures, else None.
    """

    x: Any
    y: np.ndarray
    image_shape: tuple[int, ...] | None = None


def read(
    name: str,
    data_dir: str | None = None,
    path: str | None = None,
    image_shape: tuple[int, ...] | None = None,
) -> Rows:
    """Reads a whole data set.

    Args:
        name: one of NAMES.
        data_dir, path, image_shape: see `datasets.load`.
    """
    if name == "images":
        return _read_folder(path, image_shape)
    if image_shape is not None:
        raise ValueError(
            "`image_shape` is for `images`; other data has its own. "
            f"Received: image_shape={image_shape} for {name!r}."
        )
    if opening.is_stored(name):
        x = opening.open_rows(name, data_dir, path)
        return Rows(x, x.labels(), x.catalog.layout.image_shape)
    if name == "digits":
        return _read_digits()
    if name == "npz":
        return _read_npz(path)
    if name == "nus_wide":
        return Rows(*nus_wide.read(data_dir)[:2])
    if name in GIST_OF:
        return _read_gist(name, data_dir)
    return _flattened(*_read_tfds(name, data_dir))


def _flattened(pictures, labels):
    """Rows of pictures [n, height, width, channels]."""
    x = pictures.reshape(len(pictures), -1)
    return Rows(x, labels, pictures.shape[1:])


def _read_digits():
    from sklearn import datasets as sklearn_datasets

    bunch = sklearn_datasets.load_digits()
    pictures = bunch.images.astype(np.float32)[..., None]
    return _flattened(pictures, bunch.target)


def _read_folder(path, image_shape):
    _check_path(path, "images", "a folder with one folder per class")
    return _without_empty_rows(
        Rows(*images.read_classes(path, image_shape)), path
    )


def _check_path(path, name, what):
    if not path:
        raise ValueError(f"`{name}` needs `path`, {what}.")
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"`path` must be {what}. Received: {path!r}, which does not exist."
        )


def _read_tfds(name, data_dir):
    import tensorflow_datasets as tfds

    data_dir = data_dir or os.environ.get("TFDS_DATA_DIR")
    if data_dir is not None and not os.path.isdir(data_dir):
        raise FileNotFoundError(
            f"The data directory must exist. Received: {data_dir!r}. Give a "
            f"folder that tensorflow-datasets prepared with {name}, or none "
            "to download it."
        )
    try:
        builder = tfds.builder(name, data_dir=data_dir)
        if not builder.is_prepared():
            _check_network(builder.url_infos)
        builder.download_and_prepare()
    except Exception as error:
        raise RuntimeError(
            f"{name} is not prepared in {data_dir or 'the default folder'} "
            "and could not be downloaded. Cures: (1) connect to the network "
            "and run again; (2) prepare it elsewhere with "
            f"tensorflow-datasets and give the folder, as `data_dir` or in "
            f"TFDS_DATA_DIR. Cause: {type(error).__name__}: {error}"
        ) from error
    data = builder.as_dataset(split="train+test", batch_size=-1)
    return data["image"].numpy(), data["label"].numpy()


def _check_network(urls):
    """Fails at once where a download would retry for minutes."""
    for host in {urllib.parse.urlsplit(url).hostname for url in urls}:
        socket.getaddrinfo(host, None)


def _read_npz(path):
    _check_path(path, "npz", "the file with features and labels")
    arrays = npz_files.read(path, (*_NPZ_ROWS, "image_shape"), _NPZ_ROWS)
    x, y = _find_arrays(arrays, path)
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        rows = _flattened(x if x.ndim == 4 else x[..., None], y)
    else:
        rows = Rows(x, y)
    if "image_shape" in arrays:
        rows = _with_shape(rows, arrays["image_shape"], path)
    return _without_empty_rows(rows, path)


def _with_shape(rows, given, path):
    """Rows that are pictures because their file says so."""
    shape = tuple(given.tolist()) if given.ndim == 1 else ()
    fits = len(shape) == 3 and given.dtype.kind in "iu" and min(shape) > 0
    if (
        not fits
        or rows.image_shape not in (None, shape)
        or np.prod(shape) != np.prod(rows.x.shape[1:])
    ):
        raise ValueError(
            f"`image_shape` in {path} must be three integers, height, width "
            "and channels, whose product is the width of the features. "
            f"Received: {given.tolist()} for features of shape "
            f"{rows.image_shape or rows.x.shape[1:]}."
        )
    return rows._replace(image_shape=shape)


def _without_empty_rows(rows, path):
    """Leaves out rows of zeros, as bags without any word are."""
    x, y, _ = rows
    if x.ndim != 2 or len(x) != len(y) or x.dtype.kind not in "fiub":
        return rows
    some = x.any(axis=1)
    if some.all():
        return rows
    warnings.warn(
        f"{np.sum(~some)} rows of {path} are all zero: they have no direction "
        "and no code, and are left out.",
        stacklevel=4,
    )
    return rows._replace(x=x[some], y=y[some])


def _find_arrays(data, path):
    if "x_train" in data and "y_train" in data:
        return _put_together(data, path)
    x = next((data[k] for k in _FEATURE_KEYS if k in data), None)
    found = [data[k] for k in _LABEL_KEYS if k in data]
    # Some files keep the names of their labels under one of these keys.
    fitting = [v for v in found if x is not None and len(v) == len(x)]
    y = next(iter(fitting or found), None)
    if x is None or y is None:
        raise ValueError(
            f"{path} must hold `features` and `labels`. Received: "
            f"{', '.join(sorted(data)) or 'no arrays'}."
        )
    return x, y


def _put_together(data, path):
    """Training and test rows of a file that keeps them apart."""
    parts = [s for s in ("train", "test") if f"x_{s}" in data]
    try:
        return (
            np.concatenate([data[f"x_{s}"] for s in parts]),
            np.concatenate([data[f"y_{s}"] for s in parts]),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path} must hold `x_train`, `y_train`, `x_test` and `y_test` "
            "of equal widths. Received: "
            f"{', '.join(f'{k} {data[k].shape}' for k in sorted(data))}."
        ) from error


def gist_cache_path(name: str) -> str:
    """File that keeps the GIST features of a data set."""
    folder = os.environ.get("VDSH_CACHE_DIR") or os.path.join(
        os.path.expanduser("~"), ".cache", "vdsh_tf"
    )
    return os.path.join(folder, f"{name}_v{gist.GIST_VERSION}.npz")


def _read_gist(name, data_dir):
    path = gist_cache_path(name)
    if os.path.exists(path):
        try:
            return _read_kept(path)
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            warnings.warn(
                f"{path} is damaged and is computed anew. Cause: {error}",
                stacklevel=4,
            )
    rows = _compute_gist(name, data_dir)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with files.replacing(path) as partial:
            np.savez(partial, features=rows.x, labels=rows.y)
    except OSError as error:
        warnings.warn(
            f"The features of {name} could not be kept in {path}, and the "
            "next run computes them again. Set VDSH_CACHE_DIR to a folder "
            f"that can be written. Cause: {error}",
            stacklevel=4,
        )
    return rows


def _read_kept(path):
    rows = _read_npz(path)
    x, y = rows.x, rows.y
    if x.ndim != 2 or x.shape[1] != gist.GIST_WIDTH or len(x) != len(y):
        raise ValueError(
            f"it must hold rows of {gist.GIST_WIDTH} features with their "
            f"labels, and holds {x.shape} and {y.shape}."
        )
    return rows


def _compute_gist(name, data_dir):
    import tqdm

    pictures, labels = _read_tfds(GIST_OF[name], data_dir)
    with tqdm.tqdm(
        total=len(pictures), desc=name, unit=" images", mininterval=1
    ) as bar:
        return Rows(gist.gist(pictures, progress=bar.update), labels)
