"""Very Deep Supervised Hashing: hash codes from deep nets, trained by ADMM.

Names are imported when they are first used: an index, the metrics or the
serving client work where TensorFlow is not installed.
"""

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdsh_tf.callbacks import GrowDepth
    from vdsh_tf.callbacks import LayerConvergence
    from vdsh_tf.callbacks import RetrievalEvaluation
    from vdsh_tf.config import Solver
    from vdsh_tf.encoder import HashEncoder
    from vdsh_tf.model import VDSH
    from vdsh_tf.recipes import Recipe
    from vdsh_tf.recipes import Stage
    from vdsh_tf.search.engines import open_index
    from vdsh_tf.search.hamming import HammingIndex
    from vdsh_tf.search.hasher import Hasher
    from vdsh_tf.training.estimator import HashTransformer

__version__ = "0.2.0"

OTHER_BACKEND = (
    "vdsh_tf needs Keras' TensorFlow backend: the solver is written in "
    "TensorFlow. Set KERAS_BACKEND=tensorflow before Keras is imported."
)

_HOMES = {
    "VDSH": "vdsh_tf.model",
    "GrowDepth": "vdsh_tf.callbacks",
    "HammingIndex": "vdsh_tf.search.hamming",
    "HashEncoder": "vdsh_tf.encoder",
    "HashTransformer": "vdsh_tf.training.estimator",
    "Hasher": "vdsh_tf.search.hasher",
    "LayerConvergence": "vdsh_tf.callbacks",
    "Recipe": "vdsh_tf.recipes",
    "RetrievalEvaluation": "vdsh_tf.callbacks",
    "Solver": "vdsh_tf.config",
    "Stage": "vdsh_tf.recipes",
    "open_index": "vdsh_tf.search.engines",
}

__all__ = [
    "VDSH",
    "GrowDepth",
    "HammingIndex",
    "HashEncoder",
    "HashTransformer",
    "Hasher",
    "LayerConvergence",
    "Recipe",
    "RetrievalEvaluation",
    "Solver",
    "Stage",
    "__version__",
    "open_index",
]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        # Keras asks for the backend's package first.
        if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
            raise ImportError(OTHER_BACKEND) from error
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
