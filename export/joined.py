"""Pictures in, codes out: a backbone and an encoder in one graph."""

import os

import numpy as np

from vdsh_tf.export import backbones
from vdsh_tf.export import extras
from vdsh_tf.export import graph
from vdsh_tf.export import metadata
from vdsh_tf.export import onnx_file
from vdsh_tf.export import onnx_joining
from vdsh_tf.export import parity
from vdsh_tf.export import saved_model
from vdsh_tf.export import staging

ONNX = "encoder_images.onnx"
SAVED_MODEL = "saved_model_images"
FEATURES = onnx_joining.FEATURES
_IMAGES = 20
# Features may differ so much between runtimes, of the largest.
_FEATURE_ERROR = 1e-3
_OUTPUTS = (*graph.OUTPUTS, FEATURES)


def export(
    model,
    data: str,
    wanted: backbones.Wanted,
    out: str,
    formats: tuple[str, ...],
    images: np.ndarray | None = None,
    check: bool = True,
    opset: int = onnx_file.OPSET,
) -> tuple[list[str], list[parity.Report], metadata.Metadata]:
    """Writes the backbone and a trained encoder as one file, atomically.

    The graph also gives the features, and the parity rule is held to them:
    every bit must be the float64 one of the features that the same run made.
    Features are compared with those of the backbone alone.

    Args:
        model: a trained `VDSH`, on features of this backbone.
        data: name of the data set it was trained on.
        wanted: the backbone.
        out: folder to write to.
        formats: "onnx" and "saved_model", or one of them.
        images: [n, height, width, channels] uint8 to check with; None makes
            some up.
        check: whether to check before anything is published.
        opset: of the ONNX file.

    Returns:
        Paths that were written, what the check found, what they say of
        themselves.
    """
    onnx_file.check_opset(opset)
    backbone = backbones.load(wanted)
    _check_formats(formats, backbone)
    width = int(model.encoder.kernels[0].shape[0])
    images = _check_images(images, backbone.image_shape)
    _check_features(backbone, images, width)
    described = metadata.Metadata(
        **{
            **vars(metadata.describe(model, data)),
            "feature_kind": "images",
            "image_shape": backbone.image_shape,
        }
    )
    served = graph.Served(
        graph.kernels_of(model), described, *graph.normalization_of(model)
    )
    with staging.folder(out) as stage:
        built = {}
        if "onnx" in formats:
            built[ONNX] = os.path.join(stage, ONNX)
            if isinstance(backbone, backbones.OnnxBackbone):
                onnx_joining.write(served, backbone, built[ONNX])
            else:
                write_keras_backbone(served, backbone, built[ONNX], opset)
        if "saved_model" in formats:
            built[SAVED_MODEL] = os.path.join(stage, SAVED_MODEL)
            write_saved_model(served, backbone, built[SAVED_MODEL])
        reports = _check(model, backbone, built, images) if check else []
        paths = []
        for name, path in built.items():
            target = os.path.join(out, name)
            if name == SAVED_MODEL:
                target = staging.publish_version(path, target)
            else:
                os.replace(path, target)
            paths.append(target)
    return paths, reports, described


def _check_formats(formats, backbone):
    if not formats or not set(formats) <= {"onnx", "saved_model"}:
        raise ValueError(
            "A backbone can be joined as onnx and saved_model. Received: "
            f"{', '.join(formats)}."
        )
    if "saved_model" in formats and isinstance(
        backbone, backbones.OnnxBackbone
    ):
        raise ValueError(
            "A backbone that is an ONNX file gives an ONNX file: TensorFlow "
            "does not run it. Ask for onnx alone, or give a Keras model."
        )


def _check_images(images, shape):
    if images is None:
        return made_up_images(shape)
    if images.dtype != np.uint8 or images.shape[1:] != shape:
        raise ValueError(
            f"`images` must be uint8, [n, {shape}]. Received: "
            f"{images.dtype}, {images.shape}."
        )
    return images[:_IMAGES]


def made_up_images(shape: tuple[int, ...], count: int = _IMAGES) -> np.ndarray:
    """Random pictures with structure of several sizes, uint8."""
    rng = np.random.default_rng(0)
    height, width, channels = shape
    found = np.zeros((count, height, width, channels))
    for cells in (2, 5, 16):
        rows = np.arange(height) * cells // height
        columns = np.arange(width) * cells // width
        coarse = rng.uniform(-1, 1, (count, cells, cells, channels))
        found += coarse[:, rows][:, :, columns]
    found -= found.min(axis=(1, 2, 3), keepdims=True)
    peak = found.max(axis=(1, 2, 3), keepdims=True)
    return np.rint(255 * found / peak).astype(np.uint8)


def _check_features(backbone, images, width):
    try:
        features = np.asarray(backbone.features(images[:3]))
    except Exception as error:
        raise ValueError(
            f"The backbone must run on pictures of {backbone.image_shape}, "
            f"several at a time. {backbone.name} does not. Cause: "
            f"{type(error).__name__}: {error}"
        ) from error
    if features.shape != (3, width):
        raise ValueError(
            f"The features of a backbone must be what the encoder was trained "
            f"on, [batch, {width}]. Received: {list(features.shape)} for 3 "
            f"pictures by {backbone.name}. Name the right backbone, or the "
            "layer or tensor that the features came from (`features`)."
        )
    if not np.isfinite(features).all():
        raise ValueError(f"{backbone.name} gives features that are not finite.")


def write_keras_backbone(served, backbone, path: str, opset: int) -> None:
    """Traces backbone and encoder as one function, and converts it."""
    import tensorflow as tf

    tf2onnx = extras.load("tf2onnx")
    spec = served.image_spec

    @tf.function(input_signature=[spec])
    def joined(image):
        features = backbone(image)
        return {**served.rows(features), FEATURES: features}

    with onnx_file.quiet():
        proto, _ = tf2onnx.convert.from_function(
            joined, input_signature=[spec], opset=opset
        )
    onnx_joining.finish(proto, served, path)


def write_saved_model(served, backbone, path: str) -> None:
    """The same as a SavedModel, with plain variables for the C++ loader."""
    import tensorflow as tf

    @tf.function(input_signature=[served.image_spec])
    def codes(image):
        return {"codes": served.rows(backbone(image))["codes"]}

    @tf.function(input_signature=[served.image_spec])
    def embed(image):
        features = backbone(image)
        return {**served.rows(features), FEATURES: features}

    holder = tf.Module(name="vdsh")
    holder.kernels = served.kernels
    holder.mean, holder.scale = served.mean, served.scale
    holder.backbone = backbone.variables
    signatures = {
        "serving_default": codes.get_concrete_function(),
        "embed": embed.get_concrete_function(),
    }
    os.makedirs(path)
    note = os.path.join(path, saved_model.METADATA_FILE)
    with open(note, "w") as f:
        f.write(served.metadata.to_json())
    holder.note = tf.saved_model.Asset(note)
    tf.saved_model.save(holder, path, signatures=signatures)
    os.remove(note)


def _check(model, backbone, built, images):
    """Holds what was built to the parity rule; raises if it fails."""
    kernels = graph.kernels_of(model)
    mean, scale = graph.normalization_of(model)
    alone = np.asarray(backbone.features(images))
    reports = []
    for name, run in _runners(built).items():
        for size in (1, 2, 7):
            starts = range(0, len(images), size)
            parts = [run(images[s : s + size]) for s in starts]
            outputs = {
                key: np.concatenate([part[key] for part in parts])
                for key in _OUTPUTS
            }
            features = outputs[FEATURES]
            error = np.abs(features - alone).max()
            if error > _FEATURE_ERROR * np.abs(alone).max():
                raise parity.ParityError(
                    f"Features of {name} must be those of the backbone alone, "
                    f"and differ by up to {error:g}. Nothing was written."
                )
            want = parity.responses(kernels, features, mean, scale)
            reports.append(parity.compare(want, outputs["codes"], name, size))
            if not parity.consistent(outputs):
                raise parity.ParityError(
                    f"Codes, bits and embedding of {name} must agree, but do "
                    "not. Nothing was written."
                )
    parity.require(reports)
    return reports


def _runners(built):
    found = {}
    if ONNX in built:
        onnx_session = onnx_file.Session(built[ONNX])
        found["onnx images"] = lambda x: onnx_session.run(x, *_OUTPUTS)
    if SAVED_MODEL in built:
        session = saved_model.Session(built[SAVED_MODEL])
        found["saved_model images"] = lambda x: session.run("embed", x)
    return found
