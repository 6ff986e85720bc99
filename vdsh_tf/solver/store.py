"""One row of solver state per sample, for the full schedule."""

import zipfile

import numpy as np
import tensorflow as tf
from absl import logging

from vdsh_tf import config
from vdsh_tf import files
from vdsh_tf.solver.records import SampleState
from vdsh_tf.solver.records import Sums
from vdsh_tf.solver.records import Weights


def needed_bytes(num_samples: int, dims, itemsize: int = 4) -> int:
    """Memory of the state: 5 N sum_m D_m numbers."""
    return 5 * num_samples * sum(dims) * itemsize


def check_memory(
    num_samples: int, dims, itemsize: int = 4, say: bool = True
) -> None:
    """Says what the state will need; raises if it does not fit."""
    need = needed_bytes(num_samples, dims, itemsize)
    formula = (
        f"5 N sum_m D_m = 5 x {num_samples:,} x {sum(dims):,} numbers of "
        f"{itemsize} bytes = {need / 2**30:.2f} GiB"
    )
    config.require_memory(
        need,
        "The full schedule keeps z, u, a and their last values for every "
        f"sample, {formula}, which",
        'Use fewer samples or layers, or schedule="online", which keeps '
        "nothing per sample.",
        kind=MemoryError,
    )
    if say:
        logging.info("The full schedule will keep %s.", formula)


class SampleStore(tf.Module):
    """State of all samples, of theta's history and of the running sums.

    Args:
        weights: Weights to start from.
        num_samples: N, rows of state.
        pass_samples: samples of a pass over the data, if others keep the
            state of some of them.
    """

    def __init__(
        self, weights, num_samples: int, pass_samples: int | None = None
    ):
        super().__init__()
        dims = [kernel.shape[1] for kernel in weights.theta]
        dtype = weights.classifier.dtype
        check_memory(num_samples, dims, dtype.size)
        self.num_samples = num_samples
        self.pass_samples = pass_samples or num_samples
        # How many samples of the pass have been seen.
        self.seen = tf.Variable(0, dtype=tf.int32)
        self.rows = {
            name: [
                tf.Variable(tf.zeros([num_samples, d], dtype), name=name)
                for d in dims
            ]
            for name in SampleState._fields
        }
        self.prev_theta = [tf.Variable(t) for t in weights.theta]
        self.prev2_theta = [tf.Variable(t) for t in weights.theta]
        self.gamma = [tf.Variable(0.0, dtype=dtype) for _ in dims]
        bits, classes = weights.classifier.shape
        self.sums = Sums(
            tf.Variable(0.0, dtype=dtype),
            tuple(tf.Variable(tf.zeros_like(t)) for t in self.prev_theta),
            tf.Variable(tf.zeros([bits, bits], dtype)),
            tf.Variable(tf.zeros([bits, classes], dtype)),
        )

    def read(self, index) -> SampleState:
        """State of the samples `index`."""
        return SampleState(
            *(
                tuple(tf.gather(v, index) for v in self.rows[name])
                for name in SampleState._fields
            )
        )

    def write(self, index, state) -> None:
        """Puts back the state of the samples `index`."""
        index = tf.cast(index, tf.int32)[:, None]
        for name in SampleState._fields:
            pairs = zip(self.rows[name], getattr(state, name), strict=True)
            for variable, value in pairs:
                variable.scatter_nd_update(index, value)

    def weights(self, theta, classifier) -> Weights:
        """Weights with their history, from the model's current ones."""
        return Weights(
            theta,
            tuple(map(tf.convert_to_tensor, self.prev_theta)),
            tuple(map(tf.convert_to_tensor, self.prev2_theta)),
            classifier,
        )

    def keep_history(self, weights) -> None:
        """Keeps the previous values that `full.consensus_step` returned."""
        tf.nest.map_structure(
            lambda variable, value: variable.assign(value),
            (tuple(self.prev_theta), tuple(self.prev2_theta)),
            (weights.prev_theta, weights.prev2_theta),
        )

    def add(self, sums, count) -> Sums:
        """Adds sums of `count` samples; returns those of the pass so far."""
        self.seen.assign_add(count)
        tf.nest.map_structure(
            lambda mine, batch: mine.assign_add(batch), self.sums, sums
        )
        return tf.nest.map_structure(tf.convert_to_tensor, self.sums)

    def clear_sums(self) -> None:
        """Starts the sums of another pass."""
        self.seen.assign(0)
        for variable in tf.nest.flatten(self.sums):
            variable.assign(tf.zeros_like(variable))

    def save(self, path: str) -> None:
        """Writes the store as one `.npz` file, atomically."""
        arrays = {f"v{i}": v.numpy() for i, v in enumerate(self.variables)}
        with files.replacing(path) as partial:
            np.savez(partial, **arrays)

    def load(self, path: str) -> None:
        """Reads what `save` wrote for the same network and data."""
        try:
            with np.load(path, allow_pickle=False) as data:
                arrays = [data[f"v{i}"] for i in range(len(data.files))]
        except (OSError, LookupError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"{path} must hold the state of a run, but is damaged. Train "
                f"anew in another run directory. Cause: {error}"
            ) from error
        shapes = [tuple(v.shape) for v in self.variables]
        if [a.shape for a in arrays] != shapes:
            raise ValueError(
                f"{path} must hold the state of this network and data set, "
                "but its shapes differ. Train anew in another run directory."
            )
        for variable, array in zip(self.variables, arrays, strict=True):
            variable.assign(array)
