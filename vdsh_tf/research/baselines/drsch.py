"""Deep Regularised Similarity Comparison Hashing, with weighted bits."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf.research.baselines import dsch


@dataclasses.dataclass(eq=False)
class DRSCH(dsch.DSCH):
    """DSCH with one weight per bit, and near codes for similar images.

    Minimises

        comparison_loss(d) + adjacency * appearance_loss(d, x)

    where d is the Hamming distance with weights w_k^2 that are learned and
    sum to K. Bits are ordered by their weights, largest first: the first k
    bits of a code are the paper's selection of k bits.

    Codes are compared by the plain Hamming distance, like those of all other
    methods; the paper's own distance weights bit k by `bit_weights[k]`.

    Args:
        bits, seed, steps, batch_size, learning_rate, margin, slopes: see
            `DSCH`.
        adjacency: lambda, the weight of the regulariser.
    """

    title = "DRSCH"
    reference = (
        "Zhang, Lin, Zhang, Zuo, Zhang: Bit-Scalable Deep Hashing with "
        "Regularized Similarity Learning, IEEE TIP 2015"
    )

    adjacency: float = 0.003

    @property
    def bit_weights(self) -> np.ndarray:
        """[K] float32, decreasing, sum K: weights of the Hamming distance."""
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
    """Mean distance of codes, weighted by how similar the images are.

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
