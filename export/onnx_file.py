"""ONNX files: the served function with names, metadata and a full check."""

import contextlib
import logging
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from vdsh_tf.export import extras
from vdsh_tf.export.graph import OUTPUTS
from vdsh_tf.export.graph import Served

OPSET = 18
# tf2onnx writes no more, and older ones lack what the graph needs.
OPSETS = range(13, 19)


def check_opset(opset: int) -> None:
    """Raises unless files of this opset can be written."""
    if opset not in OPSETS:
        raise ValueError(
            f"`opset` must be from {OPSETS[0]} to {OPSETS[-1]}, which "
            f"tf2onnx can write. Received: opset={opset}. Leave it at "
            f"{OPSET}."
        )


def write(
    served: Served, path: str, pixels: bool = False, opset: int = OPSET
) -> None:
    """Writes the encoder as one self-contained file.

    Args:
        served: what to write.
        path: of the new file.
        pixels: whether the input is `image`, raw uint8 pixels, and not `x`.
        opset: ONNX operator set.
    """
    check_opset(opset)
    onnx = extras.load("onnx")
    tf2onnx = extras.load("tf2onnx")
    spec = served.image_spec if pixels else served.row_spec
    function = tf.function(
        served.images if pixels else served.rows.python_function,
        input_signature=[spec],
    )
    with quiet():
        model, _ = tf2onnx.convert.from_function(
            function, input_signature=[spec], opset=opset
        )
    name_batch(model)
    add_metadata(model, served.metadata)
    model.graph.name = "vdsh"
    model.doc_string = "Codes, bits and embedding of a vdsh_tf encoder."
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def name_batch(model) -> None:
    """Names the dynamic batch dimension of inputs and outputs."""
    del model.graph.value_info[:]
    order = {name: place for place, name in enumerate(OUTPUTS)}
    last = len(order)
    outputs = sorted(
        model.graph.output, key=lambda value: order.get(value.name, last)
    )
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"


def add_metadata(model, metadata) -> None:
    """Puts the metadata into the file, in place of any that is there."""
    del model.metadata_props[:]
    for key, value in metadata.to_strings().items():
        model.metadata_props.add(key=key, value=value)


class Session:
    """Runs a file in ONNX Runtime.

    Args:
        path: the file.
        threads: of the runtime; 0 lets it choose.
    """

    def __init__(self, path: str, threads: int = 0):
        ort = extras.load("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = ort.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self._input = self._session.get_inputs()[0].name

    def run(self, value: np.ndarray, *names: str) -> dict[str, np.ndarray]:
        """Outputs by name; all of them when none is named."""
        names = names or OUTPUTS
        outputs = self._session.run(list(names), {self._input: value})
        return dict(zip(names, outputs, strict=True))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """tf2onnx reports each pass at INFO through the root logger."""
    logger = logging.getLogger("tf2onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
