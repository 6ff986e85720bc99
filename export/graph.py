"""The served function: raw rows or pixels -> codes, bits and embedding."""

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf import network
from vdsh_tf.export.metadata import Metadata

OUTPUTS = ("codes", "bits", "embedding")


class Served(tf.Module):
    """The encoder with its sign and bit packing, free of Keras.

    It holds plain variables: a module that tracks a Keras model reloads in
    Python and then fails in the C++ loader that TF Serving uses. All
    signatures call one function, so that the graph is stored once.

    Args:
        kernels: float32 arrays, layer by layer.
        metadata: what the files say about themselves.
        mean, scale: float32 [d] of `encoder.normalize`, or None; what has no
            effect is no part of the graph.
    """

    def __init__(
        self,
        kernels: list[np.ndarray],
        metadata: Metadata,
        mean: np.ndarray | None = None,
        scale: np.ndarray | None = None,
    ):
        super().__init__(name="vdsh")
        self.kernels = [
            tf.Variable(kernel, trainable=False, name=f"theta_{m}")
            for m, kernel in enumerate(kernels, start=1)
        ]
        self.mean, self.scale = (
            None
            if array is None
            else tf.Variable(array, trainable=False, name=name)
            for name, array in (("mean", mean), ("scale", scale))
        )
        self.metadata = metadata
        self.rows = tf.function(self._rows, input_signature=[self.row_spec])

    @property
    def row_spec(self) -> tf.TensorSpec:
        return tf.TensorSpec(
            [None, self.metadata.input_width], tf.float32, name="x"
        )

    @property
    def image_spec(self) -> tf.TensorSpec | None:
        """Raw pixels; None when the data set has no pictures."""
        if self.metadata.image_shape is None:
            return None
        return tf.TensorSpec(
            [None, *self.metadata.image_shape], tf.uint8, name="image"
        )

    def _rows(self, x):
        """All outputs by name for rows x, float32 [batch, d]."""
        embedding = network.forward(x, self.kernels, self.mean, self.scale)
        sign = 2 * tf.cast(embedding > 0, tf.int32) - 1
        return {
            "codes": network.pack_bits(embedding),
            "bits": tf.cast(sign, tf.int8),
            "embedding": embedding,
        }

    def images(self, image):
        """All outputs by name for raw pixels, uint8 [batch, h, w, c]."""
        x = tf.reshape(image, [-1, self.metadata.input_width])
        return self.rows(tf.cast(x, tf.float32))


def kernels_of(model) -> list[np.ndarray]:
    """float32 kernels of the layers that run."""
    return [
        np.asarray(keras.ops.convert_to_numpy(kernel), np.float32)
        for kernel in model.encoder.active_kernels
    ]


def normalization_of(model) -> tuple[np.ndarray | None, np.ndarray | None]:
    """float32 mean and scale of the encoder; None for one without effect."""
    return model.encoder.normalization_arrays()
