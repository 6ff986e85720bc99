"""Very Deep Supervised Hashing: hash codes from deep nets, trained by ADMM."""

from vdsh_tf.callbacks import GrowDepth
from vdsh_tf.callbacks import LayerConvergence
from vdsh_tf.callbacks import RetrievalEvaluation
from vdsh_tf.callbacks import Stage
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.engines import open_index
from vdsh_tf.hasher import Hasher
from vdsh_tf.model import VDSH
from vdsh_tf.retrieval import HammingIndex
from vdsh_tf.version import __version__

__all__ = [
    "VDSH",
    "GrowDepth",
    "HammingIndex",
    "HashEncoder",
    "Hasher",
    "LayerConvergence",
    "RetrievalEvaluation",
    "Stage",
    "__version__",
    "open_index",
]
