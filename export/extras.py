"""Optional packages, asked for when they are needed."""

import importlib

_EXTRA = {"onnx": "onnx", "tf2onnx": "onnx", "onnxruntime": "onnx"}


def load(name: str):
    """Imports an optional package, or says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = _EXTRA[name.split(".")[0]]
        raise RuntimeError(
            f"The package `{name}` must be installed to write and check ONNX "
            f"files. Install it with `pip install 'vdsh_tf[{extra}]'`. "
            f"Cause: {error}"
        ) from error
