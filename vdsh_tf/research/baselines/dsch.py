"""Deep Similarity Comparison Hashing: triplets with the widest margin."""

import dataclasses

import tensorflow as tf

from vdsh_tf import config
from vdsh_tf.research.baselines import small_cnn


@dataclasses.dataclass(eq=False)
class DSCH(small_cnn.DeepMethod):
    """Rows of one label nearer than others, by a quarter of the bits.

    Minimises `comparison_loss` over h = (1 - e^{-slope r}) / (1 + e^{-slope r})
    of the response r; the slope grows during training, from `slopes[0]` to
    `slopes[1]`, so that h ends near -1 and 1.

    Args:
        bits, seed, steps, batch_size, learning_rate: see `DeepMethod`.
        margin: as a share of the bits. A quarter is half of the range of
            h_i . h_j; at a half no code of ten classes has slack, and the
            classes merge.
        slopes: first and last slope.
    """

    title = "DSCH"
    reference = (
        "Zhang, Lin, Zhang, Zuo, Zhang: Bit-Scalable Deep Hashing with "
        "Regularized Similarity Learning, IEEE TIP 2015; without its "
        "regulariser and its weights of bits"
    )

    margin: float = 0.25
    slopes: tuple[float, float] = (2.0, 4.0)

    def __post_init__(self):
        super().__post_init__()
        config.require(
            min(self.slopes) > 0,
            "slopes",
            self.slopes,
            "two numbers > 0",
            "or a code does not grow with its response",
        )

    def relax(self, response, progress) -> tf.Tensor:
        """Codes from -1 to 1, sharper as training progresses."""
        first, last = self.slopes
        slope = first * (last / first) ** progress
        return tf.tanh(0.5 * slope * response)

    def loss(self, response, y, x, progress):
        h = self.relax(response, progress)
        return comparison_loss(distances(h), y, self.margin * self.bits)


def distances(h, weights=None) -> tf.Tensor:
    """Hamming distances of relaxed codes, each bit with its weight.

        d_ij = sum_k weights_k (1 - h_ik h_jk) / 2

    Args:
        h: [batch, K], from -1 to 1.
        weights: [K] >= 0, or None for ones.
    """
    if weights is None:
        weights = tf.ones_like(h[0])
    agree = tf.matmul(h * weights, h, transpose_b=True)
    return (tf.reduce_sum(weights) - agree) / 2


def comparison_loss(distance, y, margin) -> tf.Tensor:
    """Mean hinge over the triplets of a batch.

        mean_{q, i, j} max(0, d_qi - d_qj + margin)

    over q and i != q that share a label and j that shares none with q.

    Args:
        distance: [batch, batch].
        y: [batch, C], labels as {0, 1}.
        margin: in bits.
    """
    same = tf.cast(small_cnn.share_label(y), distance.dtype)
    near = same * (1 - tf.eye(tf.shape(y)[0], dtype=distance.dtype))
    triplet = near[:, :, None] * (1 - same)[:, None, :]
    total = small_cnn.triplet_sum(distance, distance, triplet, margin)
    return tf.math.divide_no_nan(total, tf.reduce_sum(triplet))
