"""Builds, checks and publishes the files of one export."""

import os
from typing import NamedTuple

import numpy as np

from vdsh_tf.export import graph
from vdsh_tf.export import litert
from vdsh_tf.export import metadata
from vdsh_tf.export import onnx_file
from vdsh_tf.export import parity
from vdsh_tf.export import quantize
from vdsh_tf.export import runtimes
from vdsh_tf.export import saved_model
from vdsh_tf.export import staging

FORMATS = ("onnx", "saved_model", "litert")
DEFAULT_FORMATS = ("onnx", "saved_model")


class Result(NamedTuple):
    """What an export wrote.

    Attributes:
        paths: files and version folders, all new.
        metadata: what they say about themselves.
        signatures: lines to read, one per signature or file.
        reports: the parity check; empty if it was not asked for.
        quantized_flips: share of bits that quantisation changed, or None.
    """

    paths: list[str]
    metadata: metadata.Metadata
    signatures: list[str]
    reports: list[parity.Report]
    quantized_flips: float | None


def export(
    model,
    data: str,
    out: str,
    formats: tuple[str, ...] = DEFAULT_FORMATS,
    rows: np.ndarray | None = None,
    quantized: bool = False,
    check: bool = True,
    opset: int = onnx_file.OPSET,
    image_shape: tuple[int, ...] | None = None,
) -> Result:
    """Writes a trained model for serving, atomically.

    Args:
        model: a trained `VDSH`.
        data: name of the data set it was trained on.
        out: folder to write to; what is there stays until the new files are
            complete and checked.
        formats: some of FORMATS.
        rows: [n, d] raw training rows, for the check and for quantisation.
        quantized: whether to write a statically quantised ONNX file too.
        check: whether to compare all runtimes before anything is published.
        opset: of the ONNX files.
        image_shape: (height, width, channels) of the pictures that the model
            was trained on, for files and signatures that take raw pixels;
            None if it was trained on other features.
    """
    _check_arguments(formats, rows, quantized, check)
    onnx_file.check_opset(opset)
    model.encoder.check_finite()
    described = metadata.describe(model, data, image_shape)
    served = graph.Served(
        graph.kernels_of(model), described, *graph.normalization_of(model)
    )
    staging.check_targets(out, _targets(formats, quantized, image_shape))
    with staging.folder(out) as stage:
        built = _build(served, stage, formats, opset)
        reports, flips = [], None
        if quantized:
            built[runtimes.QUANTIZED] = os.path.join(stage, runtimes.QUANTIZED)
            quantize.static(
                built[runtimes.ONNX], built[runtimes.QUANTIZED], rows, described
            )
            flips = runtimes.quantized_flips(built, rows)
        if check:
            reports = runtimes.check(model, described, built, rows)
        staging.check_targets(out, built)
        paths = _publish(built, out)
    return Result(
        paths, described, _signatures(described, built), reports, flips
    )


def _check_arguments(formats, rows, quantized, check):
    if not formats or not set(formats) <= set(FORMATS):
        raise ValueError(
            f"`formats` must be one or more of {', '.join(FORMATS)}. "
            f"Received: {tuple(formats)}."
        )
    if quantized and "onnx" not in formats:
        raise ValueError(
            "Quantisation works on the ONNX file, which must be written too. "
            f"Received: formats={tuple(formats)}. Add 'onnx' to `formats`."
        )
    if (check or quantized) and rows is None:
        raise ValueError(
            "`rows` of training data must be given to check the runtimes and "
            "to quantise. Received: none."
        )


def _targets(formats, quantized, image_shape):
    """Names that an export will write."""
    names = {
        "onnx": [runtimes.ONNX, *([runtimes.PIXELS] if image_shape else [])],
        "litert": [runtimes.LITERT],
        "saved_model": [runtimes.SAVED_MODEL, runtimes.MODELS_CONFIG],
    }
    found = [name for kind in formats for name in names[kind]]
    return [*found, *([runtimes.QUANTIZED] if quantized else [])]


def _build(served, stage, formats, opset):
    """Writes everything into `stage`; returns paths by name."""
    built = {}

    def place(name):
        built[name] = os.path.join(stage, name)
        return built[name]

    if "onnx" in formats:
        onnx_file.write(served, place(runtimes.ONNX), opset=opset)
        if served.image_spec is not None:
            path = place(runtimes.PIXELS)
            onnx_file.write(served, path, pixels=True, opset=opset)
    if "litert" in formats:
        litert.write(served, place(runtimes.LITERT))
    if "saved_model" in formats:
        saved_model.write(served, place(runtimes.SAVED_MODEL))
        with open(place(runtimes.MODELS_CONFIG), "w") as f:
            f.write(saved_model.models_config())
    return built


def _publish(built, out):
    """Moves what was built to its place, each with one rename."""
    paths = []
    for name, path in built.items():
        if name == runtimes.SAVED_MODEL:
            base = os.path.join(out, name)
            paths.append(staging.publish_version(path, base))
        else:
            os.replace(path, os.path.join(out, name))
            paths.append(os.path.join(out, name))
    return paths


def _signatures(meta, built):
    """Lines that say what goes in and what comes out."""
    code = f"codes uint8 [batch, {(meta.bits + 7) // 8}]"
    shape = f"[batch, {meta.bits}]"
    everything = f"{code}, bits int8 {shape}, embedding float32 {shape}"
    row = f"x float32 [batch, {meta.input_width}]"
    image = f"image uint8 {['batch', *(meta.image_shape or ())]}"
    image = image.replace("'", "")
    lines = []
    for name in built:
        if name not in (runtimes.SAVED_MODEL, runtimes.MODELS_CONFIG):
            source = image if name == runtimes.PIXELS else row
            lines.append(f"{name}: {source} -> {everything}")
    if runtimes.SAVED_MODEL in built:
        lines.append(f"serving_default: {row} -> {code}")
        lines.append(f"embed: {row} -> {everything}")
        lines.append(f"bytes: {row} -> codes_bytes string [batch]")
        lines.append(
            "fingerprint: ignored float32 [batch] -> fingerprint string [batch]"
        )
        if meta.image_shape:
            lines.append(f"pixels: {image} -> {code}")
    return lines
