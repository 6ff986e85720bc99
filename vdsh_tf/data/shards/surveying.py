"""The one pass over shards: checks every row, and makes the catalog."""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np

from vdsh_tf.data import inputs
from vdsh_tf.data import normalization
from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards import hashing
from vdsh_tf.data.shards.catalog import Catalog
from vdsh_tf.data.shards.catalog import Entry
from vdsh_tf.data.shards.catalog import Sample


def survey(
    shards: Sequence[formats.Shard],
    known: Catalog | None = None,
    progress: Callable[[int], None] | None = None,
) -> Catalog:
    """Reads all shards, but for those that are known.

    Args:
        shards: in the order of their names.
        known: what an earlier pass has found, of some of these shards, none
            of which has changed.
        progress: called with the number of rows that were read just now.
    """
    layout = None if known is None else known.layout
    entries = {} if known is None else {e.name: e for e in known.entries}
    sample = None if known is None else known.sample
    for shard in shards:
        layout = _check_layout(shard, layout or _apart(shard.layout()))
        if shard.name not in entries:
            survey_of = _Survey(shard, layout)
            entries[shard.name] = survey_of.run(progress)
            drawn = survey_of.sample
            sample = drawn if sample is None else sample.joined(drawn)
            sample = sample.smallest(normalization.most_rows(layout.width))
    if layout is None or sample is None:
        raise ValueError("There must be at least one shard. Received: none.")
    found = tuple(entries[shard.name] for shard in shards)
    _check_keys(found)
    return Catalog(layout, found, sample)


def _apart(layout):
    """A layout without what belongs to one shard."""
    return layout._replace(pieces=None)


def _check_layout(shard, wanted):
    """Raises unless a shard has the layout of the others."""
    got = _apart(shard.layout())
    names = {"width": "width", "dtype": "type", "columns": "columns of labels"}
    for field, text in names.items():
        a, b = getattr(got, field), getattr(wanted, field)
        if a != b:
            raise formats.ShardError(
                f"All shards must have one {text}. Received: {a} in "
                f"{shard.name}, and {b} in those before it. Convert it, or "
                "leave it out."
            )
    if got.image_shape != wanted.image_shape:
        return wanted._replace(image_shape=None)
    return wanted


def _check_keys(entries):
    with_keys = [bool(len(entry.key)) for entry in entries]
    if any(with_keys) and not all(with_keys):
        raise formats.ShardError(
            "All shards must have keys, or none. Received: none in "
            f"{entries[with_keys.index(False)].name}. Give it a column `key`, "
            "or leave keys out everywhere."
        )


class _Survey:
    """The pass over one shard.

    Args:
        shard: what is read.
        layout: what it must have.
    """

    def __init__(self, shard: formats.Shard, layout: formats.Layout):
        self._shard = shard
        self._layout = layout
        self._most = normalization.most_rows(layout.width)
        nothing = np.empty(0, np.uint64)
        self.sample = Sample(
            nothing,
            np.empty(0, "U1"),
            np.empty(0, np.int64),
            np.empty((0, layout.width), layout.dtype),
        )

    def run(self, progress=None) -> Entry:
        shard = self._shard
        stamp = shard.stamp()
        found: list[Entry] = []
        done = 0
        for block in shard.read():
            found.append(self._block(block, done))
            done += len(block.x)
            if progress is not None:
                progress(len(block.x))
        if not done:
            raise formats.ShardError(
                f"{shard.name} must hold at least one row. Received: an empty "
                "file. Leave it out."
            )
        if shard.stamp() != stamp:
            raise formats.ShardError(
                f"{shard.name} must not change while it is read, and has "
                "changed. Wait until it is written, and begin again."
            )
        self.sample = self.sample.smallest(self._most)
        pieces = shard.layout().pieces or (done,)
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in found])
            for name in ("labels", "content", "key", "zeros")
        }
        joined["labels"] = _smallest(joined["labels"])
        return dataclasses.replace(
            found[0], stamp=stamp, pieces=pieces, **joined
        )

    def _block(self, block, start):
        x = block.x
        if x.shape[1] != self._layout.width or x.dtype != self._layout.dtype:
            raise formats.ShardError(
                f"Rows of {self._shard.name} must be {self._layout.width} "
                f"wide, of type {self._layout.dtype}. Received: {x.shape[1]} "
                f"and {x.dtype} from row {start}."
            )
        self._check_finite(x, start)
        labels = self._labels(block.y, len(x), start)
        content = hashing.of_rows(x)
        key = np.empty(0, np.uint64)
        if block.key is not None:
            key = hashing.of_keys(np.asarray(block.key))
        zeros = start + np.flatnonzero(~x.any(axis=1))
        self._draw(x, content, start)
        return Entry(self._shard.name, "", (), labels, content, key, zeros)

    def _check_finite(self, x, start):
        if x.dtype.kind != "f":
            return
        bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
        if len(bad):
            raise formats.ShardError(
                "Features must be finite, or one row spoils all weights. "
                f"Received: NaN or inf in row {start + bad[0]} of "
                f"{self._shard.name}. {inputs.CURE}"
            )

    def _labels(self, y, count, start):
        """Labels that can be: integers >= 0, or rows of 0 and 1."""
        y = np.asarray(y)
        columns = self._layout.columns
        wanted = (count, columns) if columns else (count,)
        if y.shape != wanted or y.dtype.kind not in "iub":
            raise formats.ShardError(
                f"Labels of {self._shard.name} must be integers, one per row, "
                "or rows of 0 and 1 of one width. Received: "
                f"shape={y.shape}, dtype={y.dtype} from row {start}."
            )
        bad = (y != 0) & (y != 1) if columns else y < 0
        if bad.any():
            row = start + int(np.flatnonzero(bad.reshape(count, -1).any(1))[0])
            rule = "0 or 1" if columns else "0 or more; a class is missing"
            raise formats.ShardError(
                f"Labels must be {rule}. Received: {y[row - start]} in row "
                f"{row} of {self._shard.name}."
            )
        return y

    def _draw(self, x, content, start):
        """Adds the rows of small random numbers to the sample."""
        places = np.arange(start, start + len(x))
        # Equal rows must not be drawn together.
        order = hashing.mixed(content ^ hashing.mixed(places.astype(np.uint64)))
        if len(self.sample.order) >= self._most:
            low = order < self.sample.order.max()
        else:
            low = np.ones(len(x), bool)
        if not low.any():
            return
        names = np.full(int(low.sum()), self._shard.name)
        more = Sample(order[low], names, places[low], x[low].copy())
        self.sample = self.sample.joined(more)
        if len(self.sample.order) > 2 * self._most:
            self.sample = self.sample.smallest(self._most)


def _smallest(labels):
    """Labels in the smallest type that holds them."""
    return labels.astype(np.min_scalar_type(int(labels.max())))
