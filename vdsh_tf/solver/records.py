"""What Algorithm 1 keeps and passes on: tuples of tensors."""

from typing import NamedTuple

import tensorflow as tf


class Penalties(NamedTuple):
    """alpha_theta, alpha_w, beta: scalars; gamma: one scalar a layer.

    `margin` > 0 adds `subproblems.Margin` with `margin_weight` (in units of
    beta) to the code layer; 0 is the paper's algorithm.
    """

    alpha_theta: float
    alpha_w: float
    beta: float
    gamma: tuple
    margin: float = 0.0
    margin_weight: float = 0.0


class Weights(NamedTuple):
    """What all samples share: theta at iterations k, k-1, k-2, and W."""

    theta: tuple
    prev_theta: tuple
    prev2_theta: tuple
    classifier: tf.Tensor


class SampleState(NamedTuple):
    """What each sample keeps between iterations, layer by layer.

    Attributes:
        z: codes; z[0] is the input.
        u: their duals.
        a: weight moves of the last iteration. None in a fresh state, whose
            weight copies are theta itself.
        prev_z, prev_a: codes and moves one iteration earlier.
    """

    z: tuple
    u: tuple
    a: tuple | None = None
    prev_z: tuple | None = None
    prev_a: tuple | None = None


class Codes(NamedTuple):
    """What lines 5-9 leave behind, layer by layer.

    Attributes:
        embedding: [batch, K], output of the code layer before the step.
        z: codes, moved.
        u: their duals, moved.
        gap: z - f, with f from before the step.
        answers: responses of fresh weight copies to their inputs.
        lag: how far these stay behind what line 11 asks for.
    """

    embedding: tf.Tensor
    z: tuple
    u: tuple
    gap: tuple
    answers: tuple
    lag: tuple


class Sums(NamedTuple):
    """All that lines 12-14 need to know of the samples. Adds up over batches.

    Attributes:
        count: number of samples.
        outer: for each layer sum_i x_i a_i^T, [D_in, D_out]; with a metric
            sum_i M^-1 x_i a_i^T.
        zz: sum_i z_M z_M^T, [K, K].
        zy: sum_i z_M y^T, [K, C].
    """

    count: tf.Tensor
    outer: tuple
    zz: tf.Tensor
    zy: tf.Tensor


class Trace(NamedTuple):
    """What a sample step saw, for logging.

    Attributes:
        embedding: [batch, K], output of the code layer before the step.
        residual: [M], mean over samples of |z_m - f_m| after the codes moved.
        dual: [M], mean over samples of beta |u_m|.
    """

    embedding: tf.Tensor
    residual: tf.Tensor
    dual: tf.Tensor
