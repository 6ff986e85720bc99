"""HashEncoder: raw vectors -> normalised -> embedding -> packed codes."""

import hashlib

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf import config
from vdsh_tf import network
from vdsh_tf import recipes
from vdsh_tf.data import entries
from vdsh_tf.data import inputs as inputs_lib
from vdsh_tf.data import normalization as normalization_lib
from vdsh_tf.initializers import LooksLinear

MOST_LAYERS = 4096
INITIALIZERS = ("looks_linear", "he_normal", "glorot_uniform")


@keras.saving.register_keras_serializable("vdsh_tf")
class HashEncoder(entries.PlainModel):
    """The network F of the paper, the part that is served.

    Maps raw vectors [batch, d] to the embedding F(x) >= 0, [batch, K]; a code
    bit is `embedding > 0`. Normalisation of the rows is inside, so that
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
        grow_from: number of layers that do not start as identities; None
            means 4 (or all, if there are fewer).
        seed: integer >= 0; equal seeds give equal starting weights. None
            draws one, which is an attribute and saved.
        normalization: what a row goes through before its length is set to
            one: "unit", nothing; "center", the mean row is taken off;
            "standardize", and each column is divided by its deviation;
            "auto", what `data.normalization.choose` finds best for the data.
            All but "unit" learn from data: see `adapt`. Until then, a row
            has its length set to one, and that is all.
        center: of version 0.1.0: True for "center", False for "unit".
    """

    def __init__(
        self,
        layers: int = 8,
        width: int = 256,
        bits: int = 64,
        initializer: str = "looks_linear",
        grow_from: int | None = None,
        seed: int = 0,
        normalization: str = "auto",
        center: bool | None = None,
        **kwargs,
    ):
        for name, value in (("width", width), ("bits", bits)):
            config.require(
                config.is_count(value),
                name,
                value,
                "an integer >= 1",
                "or there is no network to train",
            )
        config.require(
            config.is_count(layers) and layers <= MOST_LAYERS,
            "layers",
            layers,
            f"an integer from 1 to {MOST_LAYERS}",
            "or there is no network, or none that can be built",
        )
        if initializer not in INITIALIZERS:
            raise ValueError(
                f"`initializer` must be one of {', '.join(INITIALIZERS)}. "
                f"Received: initializer={initializer!r}."
            )
        if center is not None:
            normalization = "center" if center else "unit"
        if normalization not in normalization_lib.CHOICES:
            raise ValueError(
                "`normalization` must be one of "
                f"{', '.join(normalization_lib.CHOICES)}. "
                f"Received: normalization={normalization!r}."
            )
        super().__init__(**kwargs)
        self.num_layers = int(layers)
        self.width = int(width)
        self.bits = int(bits)
        self.initializer = initializer
        if grow_from is None:
            grow_from = min(self.num_layers, recipes.FIRST_DEPTH)
        self.seed = config.seed(seed)
        self.normalization = normalization
        self._depth = self.num_layers
        self._active_layers(grow_from)
        self.grow_from = int(grow_from)

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
        config.check_memory(self.num_layers, self.width, self.bits, dim)
        active = set(self._active_layers(self.grow_from))
        self.kernels = []
        for m in range(1, self.num_layers + 1):
            start = self._kernel_start(m) if m in active else "identity"
            kernel = self.add_weight(
                name=f"theta_{m}", shape=dims[m - 1 : m + 1], initializer=start
            )
            self.kernels.append(kernel)
        self.mean = self.scale = None
        if self.normalization != "unit":
            self.mean = self._add_statistic("mean", dim)
        if self.normalization in ("auto", "standardize"):
            # Zeros as long as no data was seen.
            self.scale = self._add_statistic("scale", dim)
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: dim})
        self.built = True

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.bits)

    def call(self, inputs):
        return network.embed(self.normalize(inputs), self.active_kernels)

    def normalize(self, x):
        """Raw rows -> rows of unit length, as the encoder normalises them."""
        # Not in half precision, which a large mean would use up.
        x = tf.cast(x, self.variable_dtype)
        scale = self.scale
        if scale is not None:
            seen = tf.reduce_any(scale.value != 0)
            scale = tf.where(seen, scale.value, tf.ones_like(scale.value))
        rows = network.normalize(x, self.mean, scale)
        return tf.cast(rows, self.compute_dtype)

    def adapt(self, data) -> None:
        """Learns the normalisation from data, as Keras' `Normalization` does.

        Looks at a bounded sample, see `data.normalization.sample`. `fit` does
        it with the data it trains on if it was not done before. Does nothing
        for "unit".

        Args:
            data: rows [n, d], or batches (a `tf.data` dataset of x, or of
                tuples that begin with x).
        """
        if self.normalization == "unit":
            return
        rows = normalization_lib.sample(data)
        self.build((None, rows.shape[1]))
        inputs_lib.check_width(
            rows.shape[1], self.mean.shape[0], f"shape={rows.shape}"
        )
        mean, scale = normalization_lib.fit(rows, self.normalization)
        self.mean.assign(mean)
        if self.scale is not None:
            self.scale.assign(scale)

    @property
    def adapted(self) -> bool:
        """Whether the encoder has seen the data it needs for normalising."""
        if self.normalization == "unit":
            return True
        if not self.built:
            return False
        decisive = self.mean if self.scale is None else self.scale
        return bool(np.any(keras.ops.convert_to_numpy(decisive)))

    def normalization_arrays(
        self,
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Mean and scale as float32 [d]; None for one without effect."""
        mean, scale = (
            None
            if variable is None
            else np.asarray(keras.ops.convert_to_numpy(variable), np.float32)
            for variable in (self.mean, self.scale)
        )
        return normalization_lib.simplified(mean, scale)

    @property
    def scale_free(self) -> bool:
        """Whether a factor on a row leaves its code as it is."""
        if self.normalization == "unit":
            return True
        arrays = self.normalization_arrays() if self.adapted else (0,)
        return all(array is None for array in arrays)

    def check_finite(self) -> None:
        """Raises if a weight is NaN or infinite: all codes would be wrong."""
        for variable in (*self.kernels, self.mean, self.scale):
            if variable is None:
                continue
            if not np.isfinite(keras.ops.convert_to_numpy(variable)).all():
                raise ValueError(
                    "The weights of an encoder must be finite, or all codes "
                    f"are wrong. Received: NaN or inf in {variable.name}. "
                    "Its training diverged, or its file is damaged: train "
                    "anew, with a smaller rate."
                )

    @property
    def normalization_kind(self) -> str:
        """What is done at present: "unit", "center" or "standardize"."""
        mean, scale = self.normalization_arrays()
        if scale is not None:
            return "standardize"
        return "unit" if mean is None else "center"

    def set_center(self, mean) -> None:
        """Sets the mean of raw rows that is subtracted from each.

        Args:
            mean: [d], or rows [n, d] to take the mean of.
        """
        if self.normalization != "center":
            raise ValueError(
                'The encoder must be made with normalization="center" to be '
                f"given a mean. Received: normalization={self.normalization!r}."
            )
        mean = np.asarray(mean)
        if mean.ndim == 2:
            mean = mean.mean(axis=0, dtype=np.float64)
        self.mean.assign(mean)

    @property
    def center_is_set(self) -> bool:
        """False while a centred encoder still subtracts zeros."""
        return self.normalization != "center" or self.adapted

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
        self._depth = int(depth)

    def fingerprint(self) -> str:
        """32 hex digits that tell encoders with different codes apart."""
        digest = hashlib.sha256(b"vdsh_tf unit_length relu msb_first")
        for kernel in self.kernels:
            array = keras.ops.convert_to_numpy(kernel)
            digest.update(repr(array.shape).encode())
            digest.update(array.astype("<f4").tobytes())
        arrays = self.normalization_arrays()
        for name, array in zip((b"center", b"scale"), arrays, strict=True):
            if array is not None:
                digest.update(name + array.astype("<f4").tobytes())
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
            "normalization": self.normalization,
        }

    def _add_statistic(self, name, dim):
        return self.add_weight(
            name=name,
            shape=(dim,),
            initializer="zeros",
            trainable=False,
            autocast=False,
        )

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
