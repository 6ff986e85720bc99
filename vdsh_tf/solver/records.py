"""What the algorithms keep and pass on: tuples of tensors.

A per-layer tuple has one entry per layer, the code layer last. `numbered`
gives it the paper's numbers, 1 to M.
"""

from typing import NamedTuple

import tensorflow as tf


def numbered(layers) -> dict:
    """Entries of a per-layer tuple by layer number: {1: ..., M: ...}."""
    return dict(enumerate(layers, start=1))


class Weights(NamedTuple):
    """What all samples share: theta at iterations k, k-1, k-2, and W.

    Attributes:
        theta, prev_theta, prev2_theta: per-layer kernels [D_in, D_out].
        classifier: [K, C].
    """

    theta: tuple
    prev_theta: tuple
    prev2_theta: tuple
    classifier: tf.Tensor


class SampleState(NamedTuple):
    """What each sample keeps between iterations, layer by layer.

    Attributes:
        z: codes.
        u: their duals.
        a: weight moves of the last iteration.
        prev_z, prev_a: codes and moves one iteration earlier.
    """

    z: tuple
    u: tuple
    a: tuple
    prev_z: tuple
    prev_a: tuple

    def moves(self, x):
        """For each layer (x, a, prev_x, prev_a), as `weight_copies` asks.

        Args:
            x: [batch, d], inputs of the first layer.
        """
        return zip(
            (x, *self.z[:-1]),
            self.a,
            (x, *self.prev_z[:-1]),
            self.prev_a,
            strict=True,
        )


class Sums(NamedTuple):
    """All that lines 12-14 need to know of the samples. Adds up over batches.

    Attributes:
        count: number of samples.
        outer: for each layer sum_i x_i a_i^T, [D_in, D_out]; with a metric M
            in gamma's term sum_i M^-1 x_i a_i^T.
        zz: sum_i z_M z_M^T, [K, K].
        zy: sum_i z_M y^T, [K, C].
    """

    count: tf.Tensor
    outer: tuple
    zz: tf.Tensor
    zy: tf.Tensor


class Trace(NamedTuple):
    """What a step saw, for logging.

    Attributes:
        embedding: [batch, K], output of the network before the step.
        residual: [M], mean over samples of |z_m - f_m| after the codes moved.
        dual: [M], mean over samples of beta |u_m|.
        measured: what `groups.Group.measure` asked for, over all workers;
            None where there is no group.
    """

    embedding: tf.Tensor
    residual: tf.Tensor
    dual: tf.Tensor
    measured: list | None = None


class Update(NamedTuple):
    """What a step proposes: `variable - gradient` for each variable.

    Attributes:
        theta: for each layer theta - theta+ of line 12.
        classifier: [K, C], the same for line 14, or its gradient.
        trace: Trace.
    """

    theta: tuple
    classifier: tf.Tensor
    trace: Trace
