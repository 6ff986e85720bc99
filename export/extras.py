"""Optional packages, asked for when they are needed."""

import importlib

_EXTRAS = {
    "onnx": "onnx",
    "tf2onnx": "onnx",
    "onnxruntime": "onnx",
    "ai_edge_litert": "litert",
}


def load(name: str):
    """Imports an optional package, or says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.split(".")[0]
        extra = _EXTRAS[package]
        raise RuntimeError(
            f"The package `{package}` must be installed to write and check "
            "files of this format. Install it with "
            f"`pip install 'vdsh_tf[{extra}]'`. Cause: {error}"
        ) from error
