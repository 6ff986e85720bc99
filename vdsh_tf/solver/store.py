"""One row of solver state per sample, for the full schedule."""

import os

import numpy as np
import tensorflow as tf
from absl import logging

from vdsh_tf import files
from vdsh_tf.solver import admm

_FIELDS = ("z", "u", "a", "prev_z", "prev_a")


def needed_bytes(num_samples: int, dims, itemsize: int = 4) -> int:
    """Memory of the state: 5 N sum_m D_m numbers."""
    return 5 * num_samples * sum(dims) * itemsize


def available_bytes() -> int | None:
    """Free memory of this machine; None where it cannot be told."""
    try:
        with open("/proc/meminfo") as f:
            for line in f:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def check_memory(num_samples: int, dims, itemsize: int = 4) -> None:
    """Says what the state will need; raises if it does not fit."""
    need = needed_bytes(num_samples, dims, itemsize)
    formula = (
        f"5 N sum_m D_m = 5 x {num_samples:,} x {sum(dims):,} numbers of "
        f"{itemsize} bytes = {need / 2**30:.2f} GiB"
    )
    free = available_bytes()
    if free is not None and need > free:
        raise MemoryError(
            "The full schedule keeps z, u, a and their last values for every "
            f"sample, {formula}, which must fit in memory. Available: "
            f"{free / 2**30:.2f} GiB. Use fewer samples or layers, or "
            'schedule="online", which keeps nothing per sample.'
        )
    logging.info("The full schedule will keep %s.", formula)


class SampleStore(tf.Module):
    """State of all samples, of theta's history and of the running sums.

    Args:
        weights: admm.Weights to start from.
        num_samples: N.
    """

    def __init__(self, weights, num_samples: int):
        super().__init__()
        dims = [kernel.shape[1] for kernel in weights.theta[1:]]
        dtype = weights.classifier.dtype
        check_memory(num_samples, dims, dtype.size)
        self.num_samples = num_samples
        self.rows = {
            name: [
                tf.Variable(tf.zeros([num_samples, d], dtype), name=name)
                for d in dims
            ]
            for name in _FIELDS
        }
        self.prev_theta = [tf.Variable(t) for t in weights.theta[1:]]
        self.prev2_theta = [tf.Variable(t) for t in weights.theta[1:]]
        self.gamma = [tf.Variable(0.0, dtype=dtype) for _ in dims]
        bits, classes = weights.classifier.shape
        self.sums = admm.Sums(
            tf.Variable(0.0, dtype=dtype),
            tuple(tf.Variable(tf.zeros_like(t)) for t in self.prev_theta),
            tf.Variable(tf.zeros([bits, bits], dtype)),
            tf.Variable(tf.zeros([bits, classes], dtype)),
        )

    def read(self, index, x):
        """State of the samples `index`, whose inputs are `x`."""

        def rows(name):
            return tuple(tf.gather(v, index) for v in self.rows[name])

        return admm.SampleState(
            z=(x, *rows("z")),
            u=(None, *rows("u")),
            a=(None, *rows("a")),
            prev_z=(x, *rows("prev_z")),
            prev_a=(None, *rows("prev_a")),
        )

    def write(self, index, state):
        """Puts back the state of the samples `index`."""
        index = tf.cast(index, tf.int32)[:, None]
        for name in _FIELDS:
            for v, value in zip(
                self.rows[name], getattr(state, name)[1:], strict=True
            ):
                v.scatter_nd_update(index, value)

    def weights(self, theta, classifier):
        """Weights with their history, from the model's current ones."""
        return admm.Weights(
            theta,
            (None, *[tf.convert_to_tensor(v) for v in self.prev_theta]),
            (None, *[tf.convert_to_tensor(v) for v in self.prev2_theta]),
            classifier,
        )

    def keep_history(self, weights):
        """Keeps the previous values that `consensus_step` returned."""
        for m in range(len(self.prev_theta)):
            self.prev_theta[m].assign(weights.prev_theta[m + 1])
            self.prev2_theta[m].assign(weights.prev2_theta[m + 1])

    def add(self, sums):
        """Adds a batch's sums; returns those of the pass so far."""
        mine = tf.nest.flatten(self.sums)
        batch = [v for v in tf.nest.flatten(sums) if v is not None]
        for variable, value in zip(mine, batch, strict=True):
            variable.assign_add(value)
        total = tf.nest.map_structure(tf.convert_to_tensor, self.sums)
        return total._replace(outer=(None, *total.outer))

    def clear_sums(self):
        for variable in tf.nest.flatten(self.sums):
            variable.assign(tf.zeros_like(variable))

    def save(self, path: str) -> None:
        """Writes the store as one `.npz` file, whole or not at all."""
        arrays = {f"v{i}": v.numpy() for i, v in enumerate(self.variables)}
        with files.replacing(path) as partial:
            np.savez(partial, **arrays)

    def load(self, path: str) -> None:
        """Reads what `save` wrote for the same network and data."""
        with np.load(path, allow_pickle=False) as data:
            arrays = [data[f"v{i}"] for i in range(len(data.files))]
        shapes = [tuple(v.shape) for v in self.variables]
        if [a.shape for a in arrays] != shapes:
            raise ValueError(
                f"{path} must hold the state of this network and data set, "
                "but its shapes differ. Train anew in another run directory."
            )
        for variable, array in zip(self.variables, arrays, strict=True):
            variable.assign(array)
