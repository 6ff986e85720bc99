"""Static 8-bit quantisation of an exported ONNX file.

Dynamic quantisation would take its scales from the batch, so that a row's
code depended on the rows beside it; static scales come from training rows
once. Unsigned on both sides (U8U8): signed weights saturate on processors
without VNNI. Only the layers' matrix products are quantised; the
normalisation, the threshold and the packing stay as they are.
"""

import os
import tempfile

import numpy as np

from vdsh_tf.export import extras
from vdsh_tf.export import onnx_file

CALIBRATION_ROWS = 1024
_BATCH = 256


def static(source: str, path: str, rows: np.ndarray, metadata) -> None:
    """Writes the file `source` quantised to `path`.

    Args:
        source: ONNX file with input `x`, as `onnx_file.write` makes it.
        path: of the new file.
        rows: [n, d], training rows that set the scales.
        metadata: for the new file.
    """
    onnx = extras.load("onnx")
    quantization = extras.load("onnxruntime.quantization")
    rows = np.asarray(rows[:CALIBRATION_ROWS], np.float32)
    layers = [
        node.name
        for node in onnx.load(source).graph.node
        if node.op_type == "MatMul"
    ]
    with tempfile.TemporaryDirectory() as folder:
        draft = os.path.join(folder, "draft.onnx")
        quantization.quantize_static(
            source,
            draft,
            _Reader(rows),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=["MatMul"],
            nodes_to_quantize=layers,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QUInt8,
            # Scales by column come out wrong for unsigned weights.
            per_channel=False,
        )
        model = onnx.load(draft)
    onnx_file.name_batch(model)
    onnx_file.add_metadata(model, metadata)
    model.metadata_props.add(key="quantization", value="static_u8u8")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


class _Reader:
    """Calibration rows, a batch at a time, as the quantiser asks for them."""

    def __init__(self, rows):
        starts = range(0, len(rows), _BATCH)
        self._batches = iter([rows[s : s + _BATCH] for s in starts])

    def get_next(self):
        batch = next(self._batches, None)
        return None if batch is None else {"x": batch}
