"""HashEncoder: raw vectors -> unit length -> embedding -> packed codes."""

import hashlib

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf import config
from vdsh_tf.initializers import LooksLinear

INITIALIZERS = ("looks_linear", "he_normal", "glorot_uniform")

# Smallest number of float32 that is not denormal.
TINY = float(np.finfo(np.float32).tiny)


def unit_length(x):
    """Scales each row to length one; a row of zeros stays zero.

    Divides by the largest entry first, so that neither huge nor tiny rows
    leave the range of float32 when squared. Denormal numbers count as zero:
    some runtimes flush them and others do not, and a row made of them would
    get another code in each.
    """
    size = tf.abs(x)
    x = x * tf.cast(size >= TINY, x.dtype)
    peak = tf.reduce_max(size, axis=-1, keepdims=True)
    x = tf.math.divide_no_nan(x, peak)
    norm = tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1, keepdims=True))
    return tf.math.divide_no_nan(x, norm)


def forward(x, kernels, mean=None):
    """The network F on raw rows: centre, unit length, ReLU layers.

    The one statement of it in TensorFlow; encoder, hasher and exported files
    share it.

    Args:
        x: [batch, d], raw rows.
        kernels: per-layer [D_in, D_out].
        mean: [d] that is subtracted first, or None.

    Returns:
        [batch, K], the embedding.
    """
    x = normalize(x, mean)
    for kernel in kernels:
        x = tf.nn.relu(tf.matmul(x, kernel))
    return x


def normalize(x, mean=None):
    """Raw rows -> rows of unit length, after `mean` is subtracted."""
    return unit_length(x if mean is None else x - mean)


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


@keras.saving.register_keras_serializable("vdsh_tf")
class HashEncoder(keras.Model):
    """The network F of the paper, the part that is served.

    Maps raw vectors [batch, d] to the embedding F(x) >= 0, [batch, K]; a code
    bit is `embedding > 0`. Unit-length normalisation is inside, so that
    serving cannot forget it.

    Depth can grow without changing a single output. All layers exist from
    the start; those beyond `grow_from` start as identities, which leave the
    non-negative codes of the layer below exactly as they are. `set_depth`
    says how many layers are active; the frozen ones sit just below the code
    layer.

    Args:
        layers: M of the paper. It counts the code layer: `layers - 1` layers
            of `width`, then one of `bits`. (As an attribute: `num_layers`,
            because Keras reserves `layers`.)
        width: units of a hidden layer.
        bits: code length K.
        initializer: "looks_linear", "he_normal" or "glorot_uniform".
        grow_from: number of layers that are active at the start; None
            means all.
        seed: integer; equal seeds give equal starting weights.
        center: whether a mean is subtracted from a row before it is scaled;
            `set_center` says which. For features whose rows share a large
            mean, such as GIST: it would drown what tells them apart.
    """

    def __init__(
        self,
        layers: int = 8,
        width: int = 256,
        bits: int = 64,
        initializer: str = "looks_linear",
        grow_from: int | None = None,
        seed: int = 0,
        center: bool = False,
        **kwargs,
    ):
        for name, value in (
            ("layers", layers),
            ("width", width),
            ("bits", bits),
        ):
            config.require(
                config.is_count(value),
                name,
                value,
                "an integer >= 1",
                "or there is no network to train",
            )
        if initializer not in INITIALIZERS:
            raise ValueError(
                f"`initializer` must be one of {', '.join(INITIALIZERS)}. "
                f"Received: initializer={initializer!r}."
            )
        super().__init__(**kwargs)
        self.num_layers = layers
        self.width = width
        self.bits = bits
        self.initializer = initializer
        self.grow_from = grow_from
        self.seed = seed
        self.center = center
        self._depth = layers
        self._active_layers(layers if grow_from is None else grow_from)

    def build(self, input_shape):
        if self.built:
            return
        dim = input_shape[-1]
        if dim is None or len(input_shape) != 2:
            raise ValueError(
                "The encoder takes rows of a known width, [batch, d]. "
                f"Received: input shape {tuple(input_shape)}."
            )
        dims = [dim] + [self.width] * (self.num_layers - 1) + [self.bits]
        active = set(self._active_layers(self.grow_from or self.num_layers))
        self.kernels = []
        for m in range(1, self.num_layers + 1):
            start = self._kernel_start(m) if m in active else "identity"
            kernel = self.add_weight(
                name=f"theta_{m}", shape=dims[m - 1 : m + 1], initializer=start
            )
            self.kernels.append(kernel)
        self.mean = None
        if self.center:
            self.mean = self.add_weight(
                name="mean", shape=(dim,), initializer="zeros", trainable=False
            )
        self.built = True

    def call(self, inputs):
        inputs = tf.cast(inputs, self.compute_dtype)
        return forward(inputs, self.active_kernels, self.mean)

    def normalize(self, x):
        """Raw rows -> rows of unit length, centred if the encoder is."""
        return normalize(tf.cast(x, self.compute_dtype), self.mean)

    def set_center(self, mean) -> None:
        """Sets the mean of raw rows that is subtracted from each.

        Args:
            mean: [d], or rows [n, d] to take the mean of.
        """
        if not self.center:
            raise ValueError(
                "The encoder must be made with center=True to have a mean."
            )
        mean = np.asarray(mean)
        if mean.ndim == 2:
            mean = mean.mean(axis=0, dtype=np.float64)
        self.mean.assign(mean)

    @property
    def center_is_set(self) -> bool:
        """False while a centred encoder still subtracts zeros."""
        return self.mean is None or bool(np.any(self.mean.numpy()))

    @property
    def depth(self) -> int:
        """Number of active layers; the others are frozen identities."""
        return self._depth

    @property
    def active(self) -> list[int]:
        """Numbers of the active layers, counted from 1 as in the paper."""
        return self._active_layers(self._depth)

    @property
    def active_kernels(self) -> list:
        return [self.kernels[m - 1] for m in self.active]

    def set_depth(self, depth: int) -> None:
        """Chooses how many layers are active. Changes no output.

        Raises:
            ValueError: if a layer that would be frozen is not an identity.
        """
        active = set(self._active_layers(depth))
        for m in range(1, self.num_layers + 1):
            if m in active:
                continue
            kernel = keras.ops.convert_to_numpy(self.kernels[m - 1])
            if not np.array_equal(kernel, np.eye(len(kernel))):
                raise ValueError(
                    f"Layer {m} must be an identity to be frozen, or the "
                    f"codes would change. Received: depth={depth} for a "
                    f"network built with grow_from={self.grow_from}. Build "
                    f"it with grow_from={depth}, or keep the depth."
                )
        self._depth = depth

    def fingerprint(self) -> str:
        """32 hex digits that tell encoders with different codes apart."""
        digest = hashlib.sha256(b"vdsh_tf unit_length relu msb_first")
        for kernel in self.kernels:
            array = keras.ops.convert_to_numpy(kernel)
            digest.update(repr(array.shape).encode())
            digest.update(array.astype("<f4").tobytes())
        if self.mean is not None:
            mean = keras.ops.convert_to_numpy(self.mean)
            digest.update(b"center" + mean.astype("<f4").tobytes())
        return digest.hexdigest()[:32]

    def get_config(self):
        return {
            **super().get_config(),
            "layers": self.num_layers,
            "width": self.width,
            "bits": self.bits,
            "initializer": self.initializer,
            "grow_from": self.grow_from,
            "seed": self.seed,
            "center": self.center,
        }

    def _active_layers(self, depth):
        config.require(
            config.is_count(depth)
            and depth <= self.num_layers
            and (depth > 1 or self.num_layers == 1),
            "depth",
            depth,
            f"an integer from {min(2, self.num_layers)} to {self.num_layers}",
            "because the first layer and the code layer always run",
        )
        return [*range(1, depth), self.num_layers]

    def _kernel_start(self, m):
        seed = 100_003 * self.seed + m
        if self.initializer == "looks_linear":
            return LooksLinear(paired_input=m > 1, seed=seed)
        return keras.initializers.get(
            {
                "class_name": "HeNormal"
                if self.initializer == "he_normal"
                else "GlorotUniform",
                "config": {"seed": seed},
            }
        )
