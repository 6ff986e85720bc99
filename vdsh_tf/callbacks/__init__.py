"""Keras callbacks: what follows training, and what `fit` adds itself."""

from vdsh_tf.callbacks.convergence import LayerConvergence as LayerConvergence
from vdsh_tf.callbacks.evaluation import (
    RetrievalEvaluation as RetrievalEvaluation,
)
from vdsh_tf.callbacks.growth import GrowDepth as GrowDepth
from vdsh_tf.callbacks.watch import CollapsedError as CollapsedError
from vdsh_tf.callbacks.watch import Watch as Watch
