"""Kernel-based Supervised Hashing: one bit at a time, on the residual."""

import dataclasses

import numpy as np
import scipy.linalg
import scipy.optimize

from vdsh_tf.research.baselines import affinity
from vdsh_tf.research.baselines import anchors
from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class KSH(method.Method):
    """Codes whose inner products follow the pairwise labels.

    Minimises |K S - H H^T|^2 greedily. Bit k maximises h^T R h, where R is
    the residual of K S after the bits before it and h = sign(phi(X) a): first
    without the sign, as a generalised eigenvector, then with a smooth sign.
    The smooth problem is solved by L-BFGS instead of the paper's accelerated
    gradients.

    Args:
        bits: code length K.
        seed: of the anchors and of the subset.
        num_anchors: m, anchors drawn from the subset.
        iterations: upper limit of steps on the smooth problem of one bit.
    """

    title = "KSH"
    reference = "Liu et al.: Supervised Hashing with Kernels, CVPR 2012"
    subset = 5000

    num_anchors: int = 300
    iterations: int = 500

    def fit(self, x, y):
        """Trains on a subset of rows [n, d], labels [n] or [n, C]."""
        x, y, rng = self.prepare(x, y)
        self.anchors = anchors.draw(x, self.num_anchors, rng)
        squares = anchors.squared_distances(x, self.anchors)
        self.width = float(np.sqrt(squares.mean()))
        self.mean = np.exp(-0.5 / self.width**2 * squares).mean(axis=0)
        self._fit_bits(self._features(x), affinity.times(y))
        return self

    def project(self, x):
        """[n, K]: (phi(x) - mean) A."""
        return self._features(method.unit_rows(x)) @ self.projection

    def _features(self, x):
        return anchors.rbf(x, self.anchors, self.width) - self.mean

    def _fit_bits(self, phi, similar):
        num = len(phi)
        metric = anchors.gram(phi)
        metric += 1e-6 * np.trace(metric) / len(metric) * np.eye(len(metric))
        left = self.bits * (phi.T @ similar(phi)).astype(np.float64)
        codes = np.zeros((num, 0), np.float32)
        error = float(self.bits * num) ** 2
        directions, self.objective = [], []
        for _ in range(self.bits):

            def residual(v, codes=codes):
                return self.bits * similar(v) - codes @ (codes.T @ v)

            start = relaxed_direction(left, metric, num)
            best = self._sharpen(start, phi, residual)
            bit = sign(phi @ best)
            error += num**2 - 2 * float(bit @ residual(bit))
            self.objective.append(error / (self.bits * num) ** 2)
            seen = (phi.T @ bit).astype(np.float64)
            left -= np.outer(seen, seen)
            codes = np.hstack([codes, bit[:, None]])
            directions.append(best)
        self.projection = np.stack(directions, axis=1)

    def _sharpen(self, start, phi, residual):
        """The better of `start` and its smooth improvement, both with signs."""
        found = scipy.optimize.minimize(
            lambda a: smooth_loss(a.astype(np.float32), phi, residual),
            start.astype(np.float64),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.iterations, "gtol": 1e-9},
        )
        candidates = [start, found.x.astype(np.float32)]
        gains = []
        for a in candidates:
            bit = sign(phi @ a)
            gains.append(float(bit @ residual(bit)))
        return candidates[int(np.argmax(gains))]


def sign(v: np.ndarray) -> np.ndarray:
    """+1 where v > 0, else -1, in float32."""
    return np.where(v > 0, np.float32(1), np.float32(-1))


def relaxed_direction(left, metric, num) -> np.ndarray:
    """Argmax over a of a^T left a where a^T metric a = num: [m] float32."""
    top = len(metric) - 1
    _, vectors = scipy.linalg.eigh(left, metric, subset_by_index=[top, top])
    return (np.sqrt(num) * vectors[:, 0]).astype(np.float32)


def smooth_loss(a, phi, residual) -> tuple[float, np.ndarray]:
    """-b^T R b / n^2 with b = tanh(phi a / 2), and its gradient.

    Args:
        a: [m].
        phi: [n, m].
        residual: the map v -> R v.
    """
    b = np.tanh(0.5 * (phi @ a))
    pulled = residual(b)
    scale = 1.0 / len(phi) ** 2
    slope = -scale * (phi.T @ (pulled * (1 - np.square(b))))
    return -scale * float(b @ pulled), slope.astype(np.float64)
