"""Deep Semantic Ranking Hashing: codes that rank by the labels in common."""

import dataclasses

import numpy as np
import tensorflow as tf

from vdsh_tf.research.baselines import small_cnn


@dataclasses.dataclass(eq=False)
class DSRH(small_cnn.DeepMethod):
    """Triplets weighted as in NDCG, with balanced bits.

    Minimises, over relaxed codes h = 2 sigmoid(response) - 1,

        ranking_loss(h) + balance / 2 |mean h|^2 + decay / 2 |W|^2,

    W being the hash layer, which sees the last two layers of features. The
    paper sums over triplets; here it is their mean, so that `balance` does
    not depend on the batch.

    Args:
        bits, seed, steps, batch_size, learning_rate: see `DeepMethod`.
        margin: rho as a share of the bits.
        balance: alpha, penalty on bits that are on more often than off.
        decay: beta, penalty on the hash layer's weights.
    """

    title = "DSRH"
    reference = (
        "Zhao, Huang, Wang, Tan: Deep Semantic Ranking Based Hashing for "
        "Multi-Label Image Retrieval, CVPR 2015"
    )
    bypass = True

    margin: float = 0.25
    balance: float = 0.02
    decay: float = 1e-3

    def loss(self, response, y, x, progress):
        h = 2 * tf.sigmoid(response) - 1
        kernel = tf.convert_to_tensor(self.network.layers[-1].kernel)
        return (
            ranking_loss(h, y, self.margin * self.bits)
            + 0.5 * self.balance * imbalance(h)
            + self.decay * tf.nn.l2_loss(kernel)
        )


def ranking_loss(h, y, margin) -> tf.Tensor:
    """A surrogate of NDCG with every row of a batch as query.

        sum_q sum_{i, j: r_qi > r_qj} w_qij max(0, d_qi - d_qj + margin) / T
        w_qij = (2^r_qi - 2^r_qj) / Z_q

    with r the number of labels in common, d = (K - h_q . h_i) / 2 the Hamming
    distance, T the number of triplets and Z_q the DCG of the ideal ranking.

    Args:
        h: [batch, K], relaxed codes from -1 to 1.
        y: [batch, C], labels as {0, 1}.
        margin: rho, in bits.
    """
    num_bits = tf.cast(tf.shape(h)[1], h.dtype)
    distance = (num_bits - tf.matmul(h, h, transpose_b=True)) / 2
    weight = ranking_weights(y)
    count = tf.math.count_nonzero(weight, dtype=h.dtype)
    total = small_cnn.triplet_sum(distance, distance, weight, margin)
    return tf.math.divide_no_nan(total, count)


def ranking_weights(y) -> tf.Tensor:
    """w_qij of `ranking_loss`: [batch, batch, batch], zero for no triplet."""
    shared = tf.matmul(y, y, transpose_b=True)
    others = 1 - tf.eye(tf.shape(y)[0], dtype=y.dtype)
    place = tf.range(1, tf.shape(y)[0] + 1)
    discount = np.log(2.0) / tf.math.log(1 + tf.cast(place, y.dtype))
    ideal = tf.sort((2**shared - 1) * others, direction="DESCENDING")
    z = tf.reduce_sum(ideal * discount, axis=1)[:, None, None]
    gain = tf.nn.relu(2 ** shared[:, :, None] - 2 ** shared[:, None, :])
    pairs = others[:, :, None] * others[:, None, :]
    return tf.math.divide_no_nan(gain * pairs, z)


def imbalance(h) -> tf.Tensor:
    """|mean h|^2 over the bits of a batch [batch, K]."""
    return tf.reduce_sum(tf.square(tf.reduce_mean(h, axis=0)))
