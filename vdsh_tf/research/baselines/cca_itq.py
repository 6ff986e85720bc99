"""CCA-ITQ: as ITQ, on the directions that correlate with the labels."""

import dataclasses

import numpy as np
import scipy.linalg

from vdsh_tf.research.baselines import itq
from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class CCAITQ(itq.ITQ):
    """Canonical directions scaled by their correlation, then rotated.

    There are at most as many such directions as classes; longer codes spread
    the same directions over more bits.

    Args:
        bits: code length K.
        seed: of the starting rotation.
        iterations: rounds of rounding and rotating.
        ridge: added to the diagonal of both covariances.
    """

    title = "CCA-ITQ"
    reference = (
        "Gong, Lazebnik, Gordo, Perronnin: Iterative Quantization, TPAMI 2013"
    )

    ridge: float = 1e-4

    def _directions(self, x, y):
        y = method.label_matrix(y)
        directions, scale = canonical_directions(x, y, self.ridge)
        return (directions * scale)[:, : self.bits].astype(np.float32)


def canonical_directions(x, y, ridge) -> tuple[np.ndarray, np.ndarray]:
    """Directions of x most correlated with any of y, best first.

    Solves Cxy (Cyy + ridge I)^-1 Cyx w = rho^2 (Cxx + ridge I) w. With the
    Cholesky factors of both sides it is the SVD of a [d, C] matrix.

    Args:
        x: [n, d], centred.
        y: [n, C].
        ridge: > 0, keeps both covariances invertible.

    Returns:
        W [d, r] with w^T (Cxx + ridge I) w = 1, and rho [r], r = min(d, C).
    """
    x, y = x.astype(np.float64), (y - y.mean(axis=0)).astype(np.float64)
    cxx = x.T @ x / len(x) + ridge * np.eye(x.shape[1])
    cyy = y.T @ y / len(y) + ridge * np.eye(y.shape[1])
    lx = np.linalg.cholesky(cxx)
    ly = np.linalg.cholesky(cyy)
    half = scipy.linalg.solve_triangular(lx, x.T @ y / len(x), lower=True)
    whitened = scipy.linalg.solve_triangular(ly, half.T, lower=True).T
    left, rho, _ = np.linalg.svd(whitened, full_matrices=False)
    return scipy.linalg.solve_triangular(lx.T, left), rho
