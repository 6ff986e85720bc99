"""Hasher: raw rows -> packed codes, as fast for one row as for many."""

import numpy as np
import tensorflow as tf

from vdsh_tf import codes
from vdsh_tf.data import inputs
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.network import TINY
from vdsh_tf.network import forward
from vdsh_tf.network import pack_bits


class Hasher:
    """Makes codes with an encoder, without Keras on the way.

    A few rows go through NumPy, whose calls cost a microsecond; many go
    through one TensorFlow graph. Both compute in float32, in another order:
    they agree on every bit whose response is further from 0 than rounding
    (about 1e-5 of a typical response).

    Args:
        encoder: a built HashEncoder; its weights are copied.
    """

    _FEW = 4

    def __init__(self, encoder: HashEncoder):
        if not encoder.built:
            raise ValueError(
                "The encoder has no weights yet: train it or load it first."
            )
        encoder.check_finite()
        self.bits = encoder.bits
        self._kernels = [
            kernel.numpy().astype(np.float32)
            for kernel in encoder.active_kernels
        ]
        self.width = len(self._kernels[0])
        self._mean, self._scale = encoder.normalization_arrays()
        kernels = [tf.constant(kernel) for kernel in self._kernels]

        @tf.function(
            input_signature=[tf.TensorSpec([None, self.width], tf.float32)]
        )
        def graph(x):
            return pack_bits(forward(x, kernels, self._mean, self._scale))

        self._graph = graph

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Packed codes: [n, d] raw features -> [n, ceil(K/8)] uint8."""
        scale_free = self._mean is None and self._scale is None
        x = inputs.check_features(x, self.width, scale_free)
        x = x.astype(np.float32, copy=False)
        if len(x) > self._FEW:
            return self._graph(x).numpy()
        return codes.pack(self._embed(x) > 0)

    def _embed(self, x):
        if self._mean is not None:
            x = x - self._mean
        if self._scale is not None:
            x = x * self._scale
        # As `network.unit_length`: the peak first, for the range of float32,
        # and denormal numbers as zero.
        size = np.abs(x)
        x = np.where(size < TINY, np.float32(0), x)
        x /= np.maximum(size.max(axis=1, keepdims=True), np.float32(TINY))
        norm = np.sqrt(np.square(x).sum(axis=1, keepdims=True))
        x /= np.where(norm > 0, norm, np.float32(1))
        for kernel in self._kernels:
            x = x @ kernel
            np.maximum(x, 0, out=x)
        return x
