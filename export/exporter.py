"""Builds, checks and publishes the files of one export."""

import os
from typing import NamedTuple

import numpy as np

from export import graph
from export import metadata
from export import onnx_file
from export import parity
from export import quantize
from export import saved_model
from export import staging
from vdsh_tf import codes as codes_lib
from vdsh_tf import files

FORMATS = ("onnx", "saved_model")
ONNX_NAME = "encoder.onnx"
PIXELS_NAME = "encoder_pixels.onnx"
QUANTIZED_NAME = "encoder_u8.onnx"
_CHECK_ROWS = 1200
_HOSTILE_ROWS = 100


class Result(NamedTuple):
    """What an export wrote.

    Attributes:
        paths: files and version folders, all new.
        metadata: what they say about themselves.
        signatures: lines to read, one a signature or file.
        reports: the parity check; empty if it was not asked for.
        quantized_flips: share of bits that quantisation changed on the rows
            checked, or None.
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
    formats: tuple[str, ...] = FORMATS,
    rows: np.ndarray | None = None,
    quantized: bool = False,
    check: bool = True,
    opset: int = onnx_file.OPSET,
) -> Result:
    """Writes a trained model for serving, all of it or nothing.

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
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown or not formats:
        raise ValueError(
            f"`formats` must be one or more of {', '.join(FORMATS)}. "
            f"Received: {tuple(formats)}."
        )
    if quantized and "onnx" not in formats:
        raise ValueError(
            "Quantisation works on the ONNX file; ask for it too. Received: "
            f"formats={tuple(formats)}."
        )
    if (check or quantized) and rows is None:
        raise ValueError(
            "`rows` of training data must be given to check the runtimes and "
            "to quantise. Received: none."
        )
    onnx_file.check_opset(opset)
    served = graph.Served(
        graph.kernels_of(model), metadata.describe(model, data)
    )
    with staging.folder(out) as stage:
        built = _build(served, stage, formats, quantized, rows, opset)
        reports, flips = [], None
        if check:
            reports = _check(model, served, built, rows)
        if quantized:
            flips = _quantized_flips(built, rows)
        paths = _publish(built, out)
    return Result(
        paths, served.metadata, _signatures(served, built), reports, flips
    )


def _build(served, stage, formats, quantized, rows, opset):
    """Writes everything into `stage`; returns paths by file name."""
    built = {}
    if "onnx" in formats:
        built[ONNX_NAME] = os.path.join(stage, ONNX_NAME)
        onnx_file.write(served, built[ONNX_NAME], opset=opset)
        if served.image_spec is not None:
            built[PIXELS_NAME] = os.path.join(stage, PIXELS_NAME)
            onnx_file.write(
                served, built[PIXELS_NAME], pixels=True, opset=opset
            )
    if quantized:
        built[QUANTIZED_NAME] = os.path.join(stage, QUANTIZED_NAME)
        quantize.static(
            built[ONNX_NAME], built[QUANTIZED_NAME], rows, served.metadata
        )
    if "saved_model" in formats:
        built["saved_model"] = os.path.join(stage, "saved_model")
        saved_model.write(served, built["saved_model"])
    return built


def runtimes(model, served, built: dict[str, str]) -> dict:
    """Functions from rows to codes by runtime, for `parity.check`."""
    found = {"keras": lambda x: codes_lib.pack(_embedding(model, x) > 0)}
    if "saved_model" in built:
        session = saved_model.Session(built["saved_model"])
        found["saved_model"] = lambda x: session.run("serving_default", x)[
            "codes"
        ]
        found["saved_model bytes"] = lambda x: np.stack(
            [
                np.frombuffer(code, np.uint8)
                for code in session.run("bytes", x)["codes_bytes"]
            ]
        )
    if ONNX_NAME in built:
        onnx_session = onnx_file.Session(built[ONNX_NAME])
        found["onnx"] = lambda x: onnx_session.run(x, "codes")["codes"]
    return found


def pixel_runtimes(served, built: dict[str, str]) -> dict:
    """The same for rows of whole numbers from 0 to 255, as pixels."""
    shape = served.metadata.image_shape
    found = {}
    if "saved_model" in built and shape:
        session = saved_model.Session(built["saved_model"])
        found["saved_model pixels"] = lambda x: session.run(
            "pixels", x.astype(np.uint8).reshape(-1, *shape)
        )["codes"]
    if PIXELS_NAME in built:
        onnx_session = onnx_file.Session(built[PIXELS_NAME])
        found["onnx pixels"] = lambda x: onnx_session.run(
            x.astype(np.uint8).reshape(-1, *shape), "codes"
        )["codes"]
    return found


def _check(model, served, built, rows):
    kernels = graph.kernels_of(model)
    real = np.asarray(rows[:_CHECK_ROWS], np.float32)
    hostile = parity.hostile_rows(real[:_HOSTILE_ROWS])
    mixed = np.concatenate([hostile[:35], real, hostile[35:]])
    reports = parity.check(kernels, mixed, runtimes(model, served, built))
    pixels = pixel_runtimes(served, built)
    if pixels:
        reports += parity.check(kernels, np.clip(np.rint(real), 0, 255), pixels)
    parity.require(reports)
    _check_outputs(built, mixed)
    return reports


def _check_outputs(built, rows):
    """All outputs of one call must tell the same."""
    outputs = {}
    if ONNX_NAME in built:
        outputs["onnx"] = onnx_file.Session(built[ONNX_NAME]).run(rows)
    if "saved_model" in built:
        session = saved_model.Session(built["saved_model"])
        outputs["saved_model"] = session.run("embed", rows)
    for name, found in outputs.items():
        if not parity.consistent(found):
            raise parity.ParityError(
                f"Codes, bits and embedding of {name} must agree. They do "
                "not; nothing was written."
            )


def _quantized_flips(built, rows):
    rows = np.asarray(rows[-_CHECK_ROWS:], np.float32)
    plain, quantized = (
        onnx_file.Session(built[name]).run(rows, "bits")["bits"]
        for name in (ONNX_NAME, QUANTIZED_NAME)
    )
    return float(np.mean(plain != quantized))


def _publish(built, out):
    """Moves what was built to its place, each with one rename."""
    paths = []
    for name, path in built.items():
        if name == "saved_model":
            base = os.path.join(out, name)
            paths.append(staging.publish_version(path, base))
            config = os.path.join(out, "models.config")
            files.write_text(config, saved_model.models_config())
            paths.append(config)
        else:
            os.replace(path, os.path.join(out, name))
            paths.append(os.path.join(out, name))
    return paths


def _signatures(served, built):
    meta = served.metadata
    code = f"codes uint8 [batch, {(meta.bits + 7) // 8}]"
    shape = f"[batch, {meta.bits}]"
    rest = f"bits int8 {shape}, embedding float32 {shape}"
    row = f"x float32 [batch, {meta.input_width}]"
    lines = []
    for name in (ONNX_NAME, PIXELS_NAME, QUANTIZED_NAME):
        if name in built:
            source = row if name != PIXELS_NAME else _image(meta)
            lines.append(f"{name}: {source} -> {code}, {rest}")
    if "saved_model" in built:
        lines.append(f"serving_default: {row} -> {code}")
        lines.append(f"embed: {row} -> {code}, {rest}")
        lines.append(f"bytes: {row} -> codes_bytes string [batch]")
        if meta.image_shape:
            lines.append(f"pixels: {_image(meta)} -> {code}")
    return lines


def _image(meta):
    return f"image uint8 [batch, {', '.join(map(str, meta.image_shape))}]"


def _embedding(model, x):
    return np.asarray(model.encoder(x))
