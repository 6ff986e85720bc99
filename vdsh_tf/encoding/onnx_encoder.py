"""OnnxEncoder: raw rows -> packed codes, by ONNX Runtime alone."""

import math
import os

import numpy as np

from vdsh_tf import config
from vdsh_tf.data import inputs
from vdsh_tf.search import checks

_NEEDED = ("fingerprint", "bits", "input_width")


class OnnxEncoder:
    """An exported encoder.

    Args:
        content: the bytes of `encoder.onnx`, or of `encoder_pixels.onnx` or
            `encoder_images.onnx`, as `tools/export.py --onnx` writes them.
        threads: of the runtime; 0 lets it choose.

    Attributes:
        width: numbers in a row; of a picture, its pixels.
        image_shape: (height, width, channels) if it takes pictures, whose
            rows are rounded to 0 to 255; else None.
    """

    image_shape: tuple[int, ...] | None = None

    def __init__(self, content: bytes, threads: int = 0):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # Waiting threads would take the processor from others.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
            about = self._session.get_modelmeta().custom_metadata_map
            self.fingerprint = about["fingerprint"]
            self.bits = int(about["bits"])
            self.width = int(about["input_width"])
            (value,) = self._session.get_inputs()
            self._input = value.name
            if value.name == "image":
                self.image_shape = tuple(map(int, value.shape[1:]))
                self.width = math.prod(self.image_shape)
            elif value.name != "x":
                raise ValueError(f"its input is {value.name!r}")
        except Exception as error:
            raise ValueError(
                "The encoder must be an encoder.onnx of rows of features, as "
                "`python tools/export.py --onnx` writes it, with "
                f"{', '.join(_NEEDED)} in its metadata. Export again. Cause: "
                f"{type(error).__name__}: {error}"
            ) from error
        config.require(
            checks.is_fingerprint(self.fingerprint),
            "fingerprint",
            self.fingerprint,
            "the name of an encoder",
            "to bind codes to it",
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Packed codes: [n, width] raw features -> [n, ceil(K/8)] uint8."""
        x = inputs.check_features(x, self.width)
        return self._session.run(["codes"], {self._input: self._fed(x)})[0]

    def embed(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes, and the embedding [n, K] float32 whose signs they are.

        Args:
            x: [n, width] that `inputs.check_features` has seen.
        """
        codes, embedding = self._session.run(
            ["codes", "embedding"], {self._input: self._fed(x)}
        )
        return codes, embedding

    def _fed(self, x):
        """Rows as the graph takes them."""
        if self.image_shape is None:
            return x.astype(np.float32, copy=False)
        pixels = np.clip(np.rint(x), 0, 255).astype(np.uint8)
        return pixels.reshape(-1, *self.image_shape)


def read(path: str) -> bytes:
    """The bytes of an exported encoder."""
    # A pipe or device would be waited for.
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There must be an exported encoder at {path}; there is none. "
            "Write it with `python tools/export.py --onnx`, or name another."
        )
    with open(path, "rb") as f:
        return f.read()
