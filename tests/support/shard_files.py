"""Small shards on disk, for tests."""

import itertools
import os

import numpy as np

from vdsh_tf.data.shards import writing


def make_rows(count=600, width=12, classes=4, seed=0, dtype=np.float32):
    """Rows around a centre per class, and labels."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, width))
    y = rng.integers(0, classes, count)
    x = 3 * centres[y] + rng.normal(size=(count, width))
    return x.astype(dtype), y


def write(folder, x, y, kind="npy", parts=4, key=None, first=0):
    """Cuts arrays into shards of `folder`; returns it."""
    os.makedirs(folder, exist_ok=True)
    ends = np.linspace(0, len(x), parts + 1).astype(int)
    for i, (a, b) in enumerate(itertools.pairwise(ends)):
        stem = os.path.join(folder, writing.shard_name(first + i))
        part = None if key is None else key[a:b]
        writing.WRITERS[kind](stem, x[a:b], y[a:b], part)
    return folder
