"""Runs what an export built in its own runtime, and compares the bits."""

import numpy as np

from vdsh_tf import codes as codes_lib
from vdsh_tf.export import graph
from vdsh_tf.export import litert
from vdsh_tf.export import onnx_file
from vdsh_tf.export import parity
from vdsh_tf.export import quantize
from vdsh_tf.export import saved_model

ONNX = "encoder.onnx"
PIXELS = "encoder_pixels.onnx"
QUANTIZED = "encoder_u8.onnx"
LITERT = "encoder.tflite"
SAVED_MODEL = "saved_model"
MODELS_CONFIG = "models.config"

_REAL_ROWS = 1200
_HOSTILE_ROWS = 100


def encoders(model, built: dict[str, str], threads: int = 0) -> dict:
    """Functions from rows to packed codes, by runtime.

    Args:
        model: the trained model.
        built: paths by the names above.
        threads: of each runtime but Keras; 0 lets it choose.
    """
    found = {"keras": lambda x: codes_lib.pack(_embedding(model, x) > 0)}
    if SAVED_MODEL in built:
        served = saved_model.Session(built[SAVED_MODEL], threads)
        found["saved_model"] = lambda x: served.codes(x)
        found["saved_model bytes"] = lambda x: served.byte_codes(x)
    if ONNX in built:
        onnx = onnx_file.Session(built[ONNX], threads)
        found["onnx"] = lambda x: onnx.run(x, "codes")["codes"]
    if LITERT in built:
        lite = litert.Session(built[LITERT], threads or None)
        found["litert"] = lambda x: lite.run(x)["codes"]
    return found


def pixel_encoders(metadata, built: dict[str, str]) -> dict:
    """The same for rows of whole numbers from 0 to 255, sent as pixels."""
    if metadata.image_shape is None:
        return {}

    def image(x):
        return x.astype(np.uint8).reshape(-1, *metadata.image_shape)

    found = {}
    if SAVED_MODEL in built:
        served = saved_model.Session(built[SAVED_MODEL])
        found["saved_model pixels"] = lambda x: served.run("pixels", image(x))[
            "codes"
        ]
    if PIXELS in built:
        onnx = onnx_file.Session(built[PIXELS])
        found["onnx pixels"] = lambda x: onnx.run(image(x), "codes")["codes"]
    return found


def check(model, metadata, built, rows) -> list[parity.Report]:
    """Compares all runtimes on real and hostile rows; raises if one is off.

    Args:
        model: the trained model.
        metadata: of the export.
        built: paths by name.
        rows: [n, d], raw training rows.
    """
    kernels = graph.kernels_of(model)
    mean, scale = graph.normalization_of(model)
    real = np.asarray(rows[:_REAL_ROWS], np.float32)
    hostile = parity.hostile_rows(real[:_HOSTILE_ROWS])
    mixed = np.concatenate([hostile[:35], real, hostile[35:]])
    reports = parity.check(
        kernels, mixed, encoders(model, built), mean=mean, scale=scale
    )
    pixels = pixel_encoders(metadata, built)
    if pixels:
        whole = np.clip(np.rint(real), 0, 255)
        reports += parity.check(kernels, whole, pixels, mean=mean, scale=scale)
    parity.require(reports)
    for name, outputs in _all_outputs(built, mixed).items():
        if not parity.consistent(outputs):
            raise parity.ParityError(
                f"Codes, bits and embedding of {name} must agree, but do "
                "not. Nothing was written."
            )
    return reports


def quantized_flips(built, rows) -> float:
    """Share of bits that quantisation changed.

    Looks at rows that did not set the scales, where there are any.
    """
    rest = rows[quantize.CALIBRATION_ROWS :][:_REAL_ROWS]
    rows = np.asarray(rest if len(rest) else rows, np.float32)
    plain, quantized = (
        onnx_file.Session(built[name]).run(rows, "bits")["bits"]
        for name in (ONNX, QUANTIZED)
    )
    return float(np.mean(plain != quantized))


def _all_outputs(built, rows):
    found = {}
    for name in (ONNX, QUANTIZED):
        if name in built:
            found[name] = onnx_file.Session(built[name]).run(rows)
    if LITERT in built:
        found[LITERT] = litert.Session(built[LITERT]).run(rows)
    if SAVED_MODEL in built:
        session = saved_model.Session(built[SAVED_MODEL])
        found[SAVED_MODEL] = session.run("embed", rows)
    return found


def _embedding(model, x):
    return np.asarray(model.encoder(x))
