"""The same network as VDSH in plain Keras, trained by back-propagation."""

import keras
import numpy as np

from vdsh_tf import codes
from vdsh_tf.encoder import HashEncoder


@keras.saving.register_keras_serializable("vdsh_tf")
def half_squared_error(y, scores):
    """The data term of Eq. 4 for each sample."""
    return 0.5 * keras.ops.sum(keras.ops.square(scores - y), axis=-1)


def build(
    dim: int,
    num_classes: int,
    layers: int,
    width: int,
    bits: int,
    start: str,
    seed: int = 0,
) -> keras.Sequential:
    """The network with its classifier on top, for unit-length rows.

    Args:
        dim: d, width of the input.
        num_classes: C.
        layers, width, bits: as in `HashEncoder`.
        start: "looks_linear" or "he_normal", as in `HashEncoder`.
        seed: of the starting weights.
    """
    encoder = HashEncoder(layers, width, bits, initializer=start, seed=seed)
    encoder.build((None, dim))
    small = keras.initializers.RandomNormal(stddev=0.1, seed=seed)
    model = keras.Sequential([keras.Input((dim,))])
    for kernel in encoder.kernels:
        model.add(
            keras.layers.Dense(
                kernel.shape[1], activation="relu", use_bias=False
            )
        )
        model.layers[-1].kernel.assign(kernel)
    model.add(
        keras.layers.Dense(
            num_classes, use_bias=False, kernel_initializer=small
        )
    )
    return model


def insert_identities(model: keras.Sequential, layers: int) -> keras.Sequential:
    """A deeper network with the same outputs, as `GrowDepth` makes it."""
    *hidden, code, classifier = model.layers
    width = hidden[-1].units
    deeper = keras.Sequential([keras.Input(model.input_shape[1:])])
    eyes = [np.eye(width)] * (layers - len(hidden) - 1)
    kernels = [layer.kernel for layer in hidden] + eyes
    for kernel in [*kernels, code.kernel]:
        deeper.add(
            keras.layers.Dense(
                kernel.shape[1], activation="relu", use_bias=False
            )
        )
        deeper.layers[-1].kernel.assign(kernel)
    deeper.add(keras.layers.Dense(classifier.units, use_bias=False))
    deeper.layers[-1].kernel.assign(classifier.kernel)
    return deeper


def code_network(model: keras.Sequential) -> keras.Model:
    """The network without its classifier, for `encode`."""
    return keras.Model(model.inputs, model.layers[-2].output)


def encode(network: keras.Model, x, batch_size: int = 1024) -> np.ndarray:
    """Packed codes of unit-length rows, from a `code_network`.

    Keep the network for further rows: Keras traces each one anew.
    """
    embedding = network.predict(x, batch_size=batch_size, verbose=0)
    return codes.pack(codes.binarize(embedding))
