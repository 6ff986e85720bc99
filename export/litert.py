"""LiteRT (TFLite) file: the served function for phones and small devices."""

import numpy as np
import tensorflow as tf

from vdsh_tf.export import extras
from vdsh_tf.export.graph import OUTPUTS
from vdsh_tf.export.graph import Served

METADATA_NAME = "vdsh"


def write(served: Served, path: str) -> None:
    """Writes the encoder as one file, with its metadata inside."""
    function = tf.function(
        served.rows.python_function, input_signature=[served.row_spec]
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function()], served
    )
    content = _with_metadata(converter.convert(), served.metadata.to_json())
    with open(path, "wb") as f:
        f.write(content)


def read_metadata(path: str) -> str:
    """The JSON text that `write` put into the file."""
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.read_model(path)
    for entry in model.metadata or []:
        if entry.name == METADATA_NAME.encode():
            return bytes(model.buffers[entry.buffer].data).decode()
    raise ValueError(
        f"{path} must hold the metadata of a vdsh_tf encoder. There is none."
    )


class Session:
    """Runs a file in LiteRT.

    Args:
        path: the file.
        threads: of the runtime; None lets it choose.
    """

    def __init__(self, path: str, threads: int | None = None):
        litert = extras.load("ai_edge_litert.interpreter")
        self._interpreter = litert.Interpreter(path, num_threads=threads)
        self._runner = self._interpreter.get_signature_runner()

    def run(self, value: np.ndarray) -> dict[str, np.ndarray]:
        """All outputs by name."""
        outputs = self._runner(x=value)
        return {name: outputs[name] for name in OUTPUTS}


def _with_metadata(content, text):
    from tensorflow.lite.python import schema_py_generated as schema
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.convert_bytearray_to_object(content)
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(text.encode(), np.uint8)
    entry = schema.MetadataT()
    entry.name = METADATA_NAME
    entry.buffer = len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), entry]
    return flatbuffer_utils.convert_object_to_bytearray(model)
