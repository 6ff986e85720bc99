"""The network F in TensorFlow: one statement of it for all who run it."""

import numpy as np
import tensorflow as tf

# Smallest number of float32 that is not denormal.
TINY = float(np.finfo(np.float32).tiny)


def unit_length(x):
    """Scales each row to length one; a row of zeros stays zero.

    Divides by the largest entry first, so that neither huge nor tiny rows
    leave the range of float32 when squared. Denormal numbers count as zero:
    some runtimes flush them and others do not, and a row made of them would
    get another code in each.
    """
    peak = tf.reduce_max(tf.abs(x), axis=-1, keepdims=True)
    # Not by the size, which XLA would write down for both its readers.
    x = x * tf.cast((x >= TINY) | (x <= -TINY), x.dtype)
    x = tf.math.divide_no_nan(x, peak)
    norm = tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1, keepdims=True))
    return tf.math.divide_no_nan(x, norm)


def forward(x, kernels, mean=None, scale=None):
    """The network F on raw rows: normalisation, then ReLU layers.

    The one statement of it in TensorFlow; encoder, hasher and exported files
    share it.

    Args:
        x: [batch, d], raw rows.
        kernels: per-layer [D_in, D_out].
        mean, scale: see `normalize`.

    Returns:
        [batch, K], the embedding.
    """
    return embed(normalize(x, mean, scale), kernels)


def embed(x, kernels):
    """The ReLU layers alone, on normalised rows."""
    for kernel in kernels:
        x = tf.nn.relu(tf.matmul(x, kernel))
    return x


def normalize(x, mean=None, scale=None):
    """Raw rows -> rows (x - mean) * scale, scaled to unit length.

    Args:
        x: [batch, d], raw rows.
        mean: [d], or None for zeros.
        scale: [d] from 0 to 1, or None for ones.
    """
    if mean is not None:
        x = x - mean
    if scale is not None:
        x = x * scale
    return unit_length(x)


def pack_bits(embedding):
    """Packed codes inside a graph: [batch, K] -> [batch, ceil(K/8)] uint8.

    Same bytes as `codes.pack(codes.binarize(embedding))`. The sum runs in
    int32: uint8 arithmetic does not survive conversion to ONNX.
    """
    bits = tf.cast(embedding > 0, tf.int32)
    pad = -embedding.shape[1] % 8
    bits = tf.pad(bits, [[0, 0], [0, pad]])
    octets = tf.reshape(bits, [-1, (embedding.shape[1] + pad) // 8, 8])
    weights = np.array([128, 64, 32, 16, 8, 4, 2, 1], np.int32)
    return tf.cast(tf.reduce_sum(octets * weights, axis=-1), tf.uint8)
