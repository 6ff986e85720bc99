"""A small convolutional network that learns codes, and its training loop.

Sized for two cores: every convolution halves the image, and with batch
normalisation few steps suffice. The papers use larger networks; here all deep
methods share this one.
"""

import abc
import dataclasses
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf import config
from vdsh_tf.data import inputs
from vdsh_tf.research.baselines import method

_WIDTHS = (32, 64, 128)
_FEATURES = 128
_CHUNK = 1024


@dataclasses.dataclass(eq=False)
class DeepMethod(method.Method):
    """A method with a network from images to K numbers, one per bit.

    Each step draws a batch and lowers `loss` on all triplets in it, by Adam
    with cosine decay. Nothing depends on global random state.

    Attributes:
        bypass: whether the hash layer sees the last two layers of features
            instead of the last one.
        network: the Keras model, after `fit`.

    Args:
        bits: code length K.
        seed: of starting weights and batches.
        steps: of training; determines the time of `fit`.
        batch_size: images in a step, at most all.
        learning_rate: at the start.
    """

    images = True
    bypass: ClassVar[bool] = False

    steps: int = 2000
    batch_size: int = 128
    learning_rate: float = 1e-3
    network: keras.Model | None = dataclasses.field(
        default=None, init=False, repr=False
    )

    def __post_init__(self):
        config.require(
            config.is_count(self.steps),
            "steps",
            self.steps,
            "an integer >= 1",
            "or nothing is trained",
        )
        config.require(
            config.is_count(self.batch_size, 3),
            "batch_size",
            self.batch_size,
            "an integer >= 3",
            "or no batch holds a triplet",
        )

    @abc.abstractmethod
    def loss(self, response, y, x, progress) -> tf.Tensor:
        """The loss of a batch, a scalar.

        Args:
            response: [batch, K], outputs of the hash layer.
            y: [batch, C], labels as {0, 1}.
            x: [batch, height, width, channels] uint8.
            progress: scalar from 0 to 1, the share of steps that are done.
        """

    def start(self) -> list:
        """Variables to train beside the network's; called once per fit."""
        return []

    def fit(self, x, y):
        x = check_images(x)
        y = method.label_matrix(inputs.check_labels(y))
        if len(x) != len(y):
            raise ValueError(
                "Every image needs its label. Received: "
                f"{len(x)} images and {len(y)} labels."
            )
        self.network = build(x, self.bits, self.seed, self.bypass)
        variables = self.network.trainable_variables + self.start()
        step = self._step(tf.constant(x), tf.constant(y), variables)
        order = batches(
            len(x), min(self.batch_size, len(x)), self.steps, self.seed
        )
        losses = [
            step(tf.constant(index), tf.constant(done / self.steps, tf.float32))
            for done, index in enumerate(order)
        ]
        self.objective = [float(value) for value in losses]
        return self

    def project(self, x):
        network = method.require_fitted(self.network)
        x = check_images(x, network.input_shape[1:])
        parts = [
            self._respond(tf.constant(x[start : start + _CHUNK])).numpy()
            for start in range(0, len(x), _CHUNK)
        ]
        return np.concatenate(parts)

    def _step(self, x, y, variables):
        schedule = keras.optimizers.schedules.CosineDecay(
            self.learning_rate, self.steps, alpha=0.01
        )
        adam = keras.optimizers.Adam(schedule)
        adam.build(variables)

        @tf.function(autograph=False)
        def step(index, progress):
            rows = tf.gather(x, index)
            with tf.GradientTape() as tape:
                response = self.network(rows, training=True)
                loss = self.loss(response, tf.gather(y, index), rows, progress)
            adam.apply(tape.gradient(loss, variables), variables)
            return loss

        self._respond = tf.function(
            lambda rows: self.network(rows, training=False),
            autograph=False,
            reduce_retracing=True,
        )
        return step


def build(x: np.ndarray, bits: int, seed: int, bypass: bool) -> keras.Model:
    """The network: images [n, height, width, channels] -> [n, K].

    Args:
        x: training images; their mean and deviation per channel are stored in
            the network.
        bits: code length K.
        seed: of the starting weights.
        bypass: see `DeepMethod`.
    """
    seeds = iter(np.random.default_rng(seed).integers(2**31, size=16).tolist())

    def start(name):
        return getattr(keras.initializers, name)(seed=next(seeds))

    def dense(units, activation):
        name = "HeNormal" if activation == "relu" else "GlorotUniform"
        return keras.layers.Dense(
            units, activation=activation, kernel_initializer=start(name)
        )

    mean, variance = _channel_statistics(x)
    image = keras.Input(x.shape[1:], dtype="float32")
    z = keras.layers.Normalization(mean=mean, variance=variance)(image)
    for depth, width in enumerate(_widths(x.shape[1:3])):
        z = keras.layers.Conv2D(
            width,
            3 if depth else 5,
            strides=2,
            padding="same",
            use_bias=False,
            kernel_initializer=start("HeNormal"),
        )(z)
        z = keras.layers.BatchNormalization(momentum=0.9)(z)
        z = keras.layers.ReLU()(z)
    first = dense(_FEATURES, "relu")(keras.layers.Flatten()(z))
    second = dense(_FEATURES, "relu")(first)
    features = keras.layers.Concatenate()([first, second])
    top = features if bypass else second
    return keras.Model(image, dense(bits, None)(top))


def batches(num: int, batch_size: int, steps: int, seed: int) -> np.ndarray:
    """Row numbers of each step, [steps, batch]: one shuffled pass at a time."""
    rng = np.random.default_rng(seed)
    each = num // batch_size
    passes = [
        rng.permutation(num)[: each * batch_size].reshape(each, batch_size)
        for _ in range(-(-steps // each))
    ]
    return np.concatenate(passes)[:steps]


def check_images(x, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Returns `x` if it is images of one shape, or raises."""
    x = np.asarray(x)
    if x.ndim != 4 or x.dtype != np.uint8 or len(x) == 0:
        raise ValueError(
            "Images must be uint8 [n, height, width, channels], n >= 1. "
            f"Received: dtype={x.dtype}, shape={x.shape}."
        )
    if min(x.shape[1:3]) < 4:
        raise ValueError(
            "Images must be at least 4 pixels high and wide, because the "
            f"network halves them twice. Received: shape={x.shape}."
        )
    if shape is not None and x.shape[1:] != tuple(shape):
        raise ValueError(
            f"Images must have the shape trained on, {tuple(shape)}. "
            f"Received: shape={x.shape}."
        )
    return x


def share_label(y) -> tf.Tensor:
    """Whether rows share a label: [batch, C] -> [batch, batch] bool."""
    return tf.matmul(y, y, transpose_b=True) > 0


def triplet_sum(near, far, weight, margin) -> tf.Tensor:
    """Weighted hinges on all triplets.

        sum_qij weight_qij max(0, near_qi - far_qj + margin)

    Args:
        near, far: [batch, batch], distances from q to i and to j.
        weight: [batch, batch, batch], zero where (q, i, j) is no triplet.
        margin: by which j must be farther than i.
    """
    hinge = tf.nn.relu(near[:, :, None] - far[:, None, :] + margin)
    return tf.reduce_sum(weight * hinge)


def _widths(size):
    """Widths of the convolutions: two, and more while 4 pixels are left."""
    halvings = int(np.log2(min(size) / 4))
    return _WIDTHS[: max(2, min(len(_WIDTHS), halvings))]


def _channel_statistics(x):
    """Mean and variance [channels] from counts, without a float copy."""
    channels = np.moveaxis(x, 3, 0)
    share = np.stack([np.bincount(c.ravel(), minlength=256) for c in channels])
    share = share / channels[0].size
    values = np.arange(256)
    mean = share @ values
    return mean, np.maximum(share @ values**2 - mean**2, 1.0)
