"""The same network as VDSH in plain Keras, trained by back-propagation."""

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf import codes
from vdsh_tf.data import datasets
from vdsh_tf.data import tensors
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
    initializer: str,
    seed: int = 0,
) -> keras.Sequential:
    """The network with its classifier on top, for unit-length rows.

    Args:
        dim: d, width of the input.
        num_classes: C.
        layers, width, bits, initializer: as in `HashEncoder`.
        seed: of the starting weights.
    """
    encoder = HashEncoder(
        layers, width, bits, initializer, grow_from=layers, seed=seed
    )
    encoder.build((None, dim))
    small = keras.initializers.RandomNormal(stddev=0.1, seed=seed)
    return _network(
        dim,
        encoder.kernels,
        keras.layers.Dense(
            num_classes, use_bias=False, kernel_initializer=small
        ),
    )


def insert_identities(model: keras.Sequential, layers: int) -> keras.Sequential:
    """A deeper network with the same outputs, as `GrowDepth` makes it."""
    *hidden, code, classifier = model.layers
    eyes = [np.eye(hidden[-1].units)] * (layers - len(hidden) - 1)
    kernels = [*[layer.kernel for layer in hidden], *eyes, code.kernel]
    top = keras.layers.Dense(classifier.units, use_bias=False)
    deeper = _network(model.input_shape[1], kernels, top)
    top.kernel.assign(classifier.kernel)
    return deeper


def _network(dim, kernels, classifier):
    model = keras.Sequential([keras.Input((dim,))])
    for kernel in kernels:
        layer = keras.layers.Dense(
            kernel.shape[1], activation="relu", use_bias=False
        )
        model.add(layer)
        layer.kernel.assign(kernel)
    model.add(classifier)
    return model


def training_batches(
    dataset: tf.data.Dataset, num_classes: int, mean=0.0
) -> tf.data.Dataset:
    """Batches of `Split.train_batches` as the Keras network takes them.

    Args:
        dataset: batches of raw rows and labels.
        num_classes: C.
        mean: [d], subtracted from the rows before they get unit length.
    """
    return dataset.map(
        lambda x, y: (
            datasets.unit_rows(x - mean),
            tensors.label_vectors(y, num_classes, x.dtype),
        )
    )


def code_network(model: keras.Sequential) -> keras.Model:
    """The network without its classifier, for `encode`."""
    return keras.Model(model.inputs, model.layers[-2].output)


def encode(network: keras.Model, x, batch_size: int = 1024) -> np.ndarray:
    """Packed codes of unit-length rows, from a `code_network`.

    Reuse one network for all rows: Keras traces every new one.
    """
    embedding = network.predict(x, batch_size=batch_size, verbose=0)
    return codes.pack(codes.binarize(embedding))
