"""Iterative Quantization: the rotation of the PCA that rounds best."""

import dataclasses

import numpy as np

from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class ITQ(method.Method):
    """Principal directions, rotated towards the corners of the cube.

    Args:
        bits: code length K.
        seed: of the starting rotation.
        iterations: rounds of rounding and rotating.
    """

    title = "ITQ"
    reference = "Gong, Lazebnik: Iterative Quantization, CVPR 2011"

    iterations: int = 50

    def fit(self, x, y):
        """Trains on rows [n, d]; ITQ itself does not use the labels."""
        x = method.unit_rows(x)
        self.mean = x.mean(axis=0)
        x = x - self.mean
        directions = self._directions(x, y)
        rng = np.random.default_rng(self.seed)
        rotation, self.objective = fit_rotation(
            x @ directions, self.bits, self.iterations, rng
        )
        self.projection = directions @ rotation
        return self

    def project(self, x):
        """[n, K]: (x - mean) W R."""
        return (method.unit_rows(x) - self.mean) @ self.projection

    def _directions(self, x, y):
        return principal_directions(x, self.bits)


def principal_directions(x: np.ndarray, count: int) -> np.ndarray:
    """Leading eigenvectors of x^T x, at most `count`: [d, r] float32."""
    _, vectors = np.linalg.eigh((x.T @ x).astype(np.float64))
    return vectors[:, ::-1][:, :count].astype(np.float32)


def fit_rotation(v, bits, iterations, rng) -> tuple[np.ndarray, list[float]]:
    """Lowers |B - V R|^2 over codes B and R with orthonormal rows.

    Fewer directions than bits (r < K) are spread over all bits.

    Args:
        v: [n, r], r <= K, centred projections.
        bits: K.
        iterations: rounds of the two exact steps.
        rng: draws the starting rotation.

    Returns:
        R [r, K], and the objective after each round.
    """
    rotation = procrustes(rng.normal(size=(v.shape[1], bits)))
    energy = float(np.sum(np.square(v), dtype=np.float64)) + len(v) * bits
    objective = []
    for _ in range(iterations):
        corners = np.where(v @ rotation > 0, np.float32(1), np.float32(-1))
        cross = (v.T @ corners).astype(np.float64)
        rotation = procrustes(cross)
        objective.append(energy - 2 * float(np.sum(rotation * cross)))
    return rotation, objective


def procrustes(cross: np.ndarray) -> np.ndarray:
    """Argmax of tr(R^T M) over R [r, K] with R R^T = I: float32."""
    left, _, right = np.linalg.svd(cross, full_matrices=False)
    return (left @ right).astype(np.float32)
