"""Deep Regularised Similarity Comparison Hashing, with weighted bits."""

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf.research.baselines import dsch


class DRSCH(dsch.DSCH):
    """DSCH with a weight a bit, and near codes for pictures that look alike.

    Minimises

        comparison_loss(d) + adjacency * appearance_loss(d, x)

    where d is the Hamming distance with weights w_k^2 that are learned and
    sum to K. Bits come in the order of their weights, heaviest first: the
    first k bits of a code are the paper's selection of k bits.

    Codes are compared by the plain Hamming distance, like those of all other
    methods; the paper's own distance weighs bit k by `bit_weights[k]`.

    Args:
        bits, seed, steps, batch_size, learning_rate, margin, slopes: see
            `DSCH`.
        adjacency: lambda, the share of the regulariser.
    """

    title = "DRSCH"
    reference = (
        "Zhang, Lin, Zhang, Zuo, Zhang: Bit-Scalable Deep Hashing with "
        "Regularized Similarity Learning, IEEE TIP 2015"
    )

    def __init__(
        self,
        bits=64,
        seed=0,
        steps=2000,
        batch_size=128,
        learning_rate=1e-3,
        margin=0.25,
        slopes=(2.0, 4.0),
        adjacency: float = 0.003,
    ):
        super().__init__(
            bits, seed, steps, batch_size, learning_rate, margin, slopes
        )
        self.adjacency = adjacency

    @property
    def bit_weights(self) -> np.ndarray:
        """[K] float32, falling, sum K: weights of the Hamming distance."""
        return np.sort(self._weights().numpy())[::-1]

    def start(self):
        self._roots = keras.Variable(np.ones(self.bits, np.float32))
        return [self._roots]

    def loss(self, response, y, x, progress):
        distance = dsch.distances(
            self.relax(response, progress), self._weights()
        )
        return dsch.comparison_loss(
            distance, y, self.margin * self.bits
        ) + self.adjacency * appearance_loss(distance, x)

    def project(self, x):
        order = np.argsort(-self._weights().numpy(), kind="stable")
        return super().project(x)[:, order]

    def _weights(self):
        square = tf.square(tf.convert_to_tensor(self._roots))
        return square / tf.reduce_mean(square)


def appearance_loss(distance, x) -> tf.Tensor:
    """Mean distance of codes, weighed by how alike the pictures look.

        sum_ij s_ij d_ij / sum_ij s_ij,    s_ij = exp(-4 |x_i - x_j|^2 / m)

    over i != j, with m the mean of |x_i - x_j|^2: the graph Laplacian of a
    heat kernel on pixels.

    Args:
        distance: [batch, batch], between codes.
        x: [batch, height, width, channels], pixels.
    """
    pixels = tf.reshape(tf.cast(x, distance.dtype) / 255, [tf.shape(x)[0], -1])
    square = tf.reduce_sum(tf.square(pixels), axis=1)
    apart = (
        square[:, None]
        + square
        - 2 * tf.matmul(pixels, pixels, transpose_b=True)
    )
    others = 1 - tf.eye(tf.shape(x)[0], dtype=distance.dtype)
    mean = tf.reduce_sum(apart * others) / tf.reduce_sum(others)
    alike = others * tf.exp(-4 * apart / mean)
    return tf.reduce_sum(alike * distance) / tf.reduce_sum(alike)
