"""What a run was trained and measured on, so that later steps use the same.

A file of data may change between two steps. Other rows, or the same in
another order, make another split: rows that were trained on become queries,
and every number looks better than it is.
"""

import hashlib
import math

import numpy as np

from vdsh_tf.data.datasets import Split
from vdsh_tf.data.shards.rows import StoredRows
from vdsh_tf.training.runs import RunDirectory

# On another processor, rounding may turn some bits of a code.
_RELATIVE, _ABSOLUTE = 1e-2, 1e-3


def describe(split: Split) -> dict:
    """What later steps must know of the data, for data.json."""
    return {
        "name": split.name,
        "image_shape": split.image_shape,
        "num_classes": split.num_classes,
        "width": split.train.x.shape[1],
        "sha256": digest(split),
    }


def digest(split: Split) -> str:
    """SHA-256 of all rows and labels, of what is what, and of their order."""
    total = hashlib.sha256()
    for name in ("train", "query", "validation", "unseen", "trained_query"):
        part = getattr(split, name)
        for array in () if part is None else (part.x, part.y):
            if isinstance(array, StoredRows):
                # Not read again: the pass over the data has hashed each row.
                total.update(name.encode() + array.digest())
                continue
            array = np.ascontiguousarray(array)
            header = f"{name} {array.dtype.str} {array.shape}\n"
            total.update(header.encode())
            total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def check_data(directory: RunDirectory, split: Split) -> None:
    """Refuses data that is not what the run was trained on.

    Runs of versions that kept no digest pass.
    """
    stored = directory.data.get("sha256")
    if stored is not None and stored != digest(split):
        raise ValueError(
            f"The data must be what {directory.path} was trained on, or "
            "queries may be rows that it has learned; its rows, its labels or "
            "their order have changed since (data.json has another sha256). "
            "Bring the old data back, name its place with --path or "
            "--data_dir, or train another run."
        )


def check_metrics(directory: RunDirectory, result: dict) -> None:
    """Refuses metrics that are not those of the run's metrics.json."""
    if not directory.finished:
        return
    changed = list(_differences(directory.read_json("metrics.json"), result))
    if changed:
        raise ValueError(
            "A run that is measured again must give the numbers of "
            f"{directory.file('metrics.json')}, or one of the two is wrong; "
            f"there are others: {', '.join(changed)}. The model, the data or "
            "the metrics were changed since: train another run."
        )


def _differences(stored, result):
    """What is not the same, as sentences; what one lacks is left out."""
    for name, new in result.items():
        old = stored.get(name, new)
        if isinstance(new, dict) and isinstance(old, dict):
            yield from _differences(old, new)
        elif not _same(old, new):
            yield f"{name} was {old}, is {new}"


def _same(old, new):
    numbers = (int, float)
    if isinstance(old, numbers) and isinstance(new, numbers):
        both_nan = math.isnan(old) and math.isnan(new)
        close = math.isclose(old, new, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
        return both_nan or close
    return old == new
