"""Feature extractors that come before an encoder: pictures -> features.

A backbone is a Keras model file, an ONNX file, or `keras:NAME`, a network of
`keras.applications` with weights that Keras downloads when it is asked for.
"""

import os
from typing import Any
from typing import NamedTuple

import numpy as np

from vdsh_tf.export import extras

# How a backbone wants its pixels: factor and offset of the values 0 to 255.
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_STD = np.array([0.229, 0.224, 0.225], np.float32)
PIXELS: dict[str, tuple[Any, Any]] = {
    "raw": (np.float32(1), np.float32(0)),
    "unit": (np.float32(1 / 255), np.float32(0)),
    "signed": (np.float32(1 / 127.5), np.float32(-1)),
    "imagenet": (1 / (255 * _STD), -_MEAN / _STD),
}
_APPLICATIONS = "keras:"


class Wanted(NamedTuple):
    """What is asked of a backbone.

    Attributes:
        place: path of a `.keras` or `.onnx` file, or `keras:NAME`.
        pixels: one of PIXELS.
        size: height and width of the pictures, where the backbone takes any.
        features: name of an inner layer (Keras) or tensor (ONNX) to take
            instead of the output; None for the output.
    """

    place: str
    pixels: str = "raw"
    size: int | None = None
    features: str | None = None


def load(wanted: Wanted) -> "KerasBackbone | OnnxBackbone":
    """Loads a backbone.

    Raises:
        ValueError: it is none, or does not suit.
        RuntimeError: its weights could not be downloaded.
    """
    if wanted.pixels not in PIXELS:
        raise ValueError(
            f"`pixels` must be one of {', '.join(PIXELS)}. Received: "
            f"pixels={wanted.pixels!r}."
        )
    place = wanted.place
    if place.startswith(_APPLICATIONS):
        name = place.removeprefix(_APPLICATIONS)
        return KerasBackbone(_application(name, wanted.size or 224), wanted)
    if not os.path.isfile(place):
        raise FileNotFoundError(
            "A backbone must be a .keras or .onnx file, or keras:NAME such as "
            f"keras:EfficientNetB0. Received: {place}, which does not exist."
        )
    if place.endswith(".onnx"):
        return OnnxBackbone(place, wanted)
    import keras

    try:
        model = keras.saving.load_model(place, compile=False)
    except Exception as error:
        raise ValueError(
            f"{place} must be a Keras model file (.keras) or an ONNX file "
            f"(.onnx). Cause: {type(error).__name__}: {error}"
        ) from error
    return KerasBackbone(model, wanted)


def _application(name, size):
    """A network of keras.applications, without its classifier."""
    import keras

    make = getattr(keras.applications, name, None)
    if not callable(make):
        known = sorted(n for n in dir(keras.applications) if n[0].isupper())
        raise ValueError(
            "A backbone keras:NAME must be one of keras.applications. "
            f"Received: {name}. There are {', '.join(known)}."
        )
    try:
        return make(
            include_top=False, pooling="avg", input_shape=(size, size, 3)
        )
    except Exception as error:
        home = os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")
        folder = os.path.join(home, "models")
        raise RuntimeError(
            f"The weights of {name} must be downloaded, and could not be. "
            "Connect to the network and run again; or fetch the file that "
            f"is named below elsewhere and put it into {folder} under the "
            "same name; or give a .keras or .onnx file that you have. Cause: "
            f"{type(error).__name__}: {error}"
        ) from error


def _sized(shape, size, what):
    """(height, width, channels) of a backbone's input."""
    height, width, channels = shape
    if size is not None and {height, width} <= {None, size}:
        height = width = size
    if height is None or width is None or channels not in (1, 3):
        raise ValueError(
            f"A backbone must take pictures of a known size with 1 or 3 "
            f"channels. Received: {what}, {(height, width, channels)}. Give "
            "`size` where it takes any."
        )
    return int(height), int(width), int(channels)


class KerasBackbone:
    """A Keras model: [batch, height, width, channels] -> features."""

    def __init__(self, model, wanted: Wanted):
        import keras

        self.name = wanted.place
        self._factor, self._offset = PIXELS[wanted.pixels]
        shape = getattr(model, "input_shape", None)
        if not isinstance(shape, tuple) or len(shape) != 4:
            raise ValueError(
                "A backbone must have one input, [batch, height, width, "
                f"channels]. Received: {wanted.place}, {shape}."
            )
        self.image_shape = _sized(shape[1:], wanted.size, wanted.place)
        if wanted.features is not None:
            layer = next(
                (x for x in model.layers if x.name == wanted.features), None
            )
            if layer is None:
                names = ", ".join(x.name for x in model.layers[-9:])
                raise ValueError(
                    "`features` must name a layer of the backbone. Received: "
                    f"{wanted.features}. Its last ones are {names}."
                )
            model = keras.Model(model.inputs, layer.output)
        self.model = model

    @property
    def variables(self) -> list:
        """Plain variables, for what must not track a Keras model."""
        return [variable.value for variable in self.model.variables]

    def __call__(self, image):
        """Features [batch, width] of pixels, uint8."""
        import tensorflow as tf

        x = tf.cast(image, tf.float32) * self._factor + self._offset
        x = self.model(x, training=False)
        # A map of features is averaged.
        return tf.reduce_mean(x, [1, 2]) if len(x.shape) == 4 else x

    def features(self, images: np.ndarray) -> np.ndarray:
        """The same in NumPy."""
        return self(images).numpy()


class OnnxBackbone:
    """An ONNX file, whose pictures are channels first or last."""

    def __init__(self, path: str, wanted: Wanted):
        onnx = extras.load("onnx")
        self.name = path
        self._factor, self._offset = PIXELS[wanted.pixels]
        try:
            self.proto = onnx.load(path)
            onnx.checker.check_model(self.proto)
        except Exception as error:
            raise ValueError(
                f"{path} must be a whole ONNX file. Cause: "
                f"{type(error).__name__}: {error}"
            ) from error
        given = {value.name for value in self.proto.graph.initializer}
        inputs = [v for v in self.proto.graph.input if v.name not in given]
        if len(inputs) != 1 or len(inputs[0].type.tensor_type.shape.dim) != 4:
            raise ValueError(
                "A backbone must have one input of four dimensions. Received: "
                f"{path}, with inputs {[v.name for v in inputs]}."
            )
        self.input = inputs[0].name
        dims = inputs[0].type.tensor_type.shape.dim[1:]
        sizes = [d.dim_value or None for d in dims]
        self.channels_first = sizes[0] in (1, 3)
        if self.channels_first:
            sizes = [*sizes[1:], sizes[0]]
        self.image_shape = _sized(sizes, wanted.size, path)
        self.output = wanted.features or self.proto.graph.output[0].name
        made = {name for node in self.proto.graph.node for name in node.output}
        if self.output not in made:
            raise ValueError(
                "`features` must name a tensor of the backbone. Received: "
                f"{self.output}, which no node of {path} makes."
            )

    def pixels(self, images: np.ndarray) -> np.ndarray:
        """What the network itself takes, of pixels uint8."""
        x = images.astype(np.float32) * self._factor + self._offset
        x = np.asarray(x, np.float32)
        return x.transpose(0, 3, 1, 2) if self.channels_first else x

    def features(self, images: np.ndarray) -> np.ndarray:
        """Features by the network alone, in ONNX Runtime."""
        onnx = extras.load("onnx")
        ort = extras.load("onnxruntime")
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        if self.output not in {v.name for v in proto.graph.output}:
            proto.graph.output.append(
                onnx.helper.make_empty_tensor_value_info(self.output)
            )
        session = ort.InferenceSession(
            proto.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        fed = {self.input: self.pixels(images)}
        found = session.run([self.output], fed)[0]
        return found.mean(axis=(2, 3)) if found.ndim == 4 else found

    @property
    def scaling(self) -> tuple[np.ndarray, np.ndarray]:
        """Factor and offset of the pixels, as arrays over channels."""
        size = self.image_shape[2]
        factor, offset = (
            np.broadcast_to(np.asarray(value, np.float32), [size]).copy()
            for value in (self._factor, self._offset)
        )
        return factor, offset
