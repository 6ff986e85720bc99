"""Supervised Discrete Hashing: codes that classify linearly."""

import dataclasses

import numpy as np
import scipy.linalg

from vdsh_tf.research.baselines import anchors
from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class SDH(method.Method):
    """Alternates three exact steps on codes, classifier and projection.

    Minimises over B in {-1, 1}^{n x K}, W and P

        |Y - B W|^2 + lam |W|^2 + nu (|B - phi(X) P|^2 + ridge |P|^2)

    where phi are RBF features on anchors, as the authors' program does.

    Args:
        bits: code length K.
        seed: of anchors and the starting codes.
        num_anchors: m, anchors drawn from the training rows.
        width: of the kernel, for rows of unit length.
        lam: weight of |W|^2.
        nu: weight of the fit of the projection.
        ridge: weight of |P|^2 in that fit.
        iterations: rounds of the three steps.
        sweeps: upper limit of passes over the bits in one round.
    """

    title = "SDH"
    reference = "Shen, Shen, Liu, Shen: Supervised Discrete Hashing, CVPR 2015"

    num_anchors: int = 1000
    width: float = 0.4
    lam: float = 1.0
    nu: float = 1e-5
    ridge: float = 1e-2
    iterations: int = 5
    sweeps: int = 10

    def fit(self, x, y):
        """Trains on rows [n, d] with labels [n] or multi-hot [n, C]."""
        x, y, rng = self.prepare(x, y)
        self.anchors = anchors.draw(x, self.num_anchors, rng)
        phi = self._features(x)
        normal = anchors.gram(phi)
        normal[np.diag_indices_from(normal)] += self.ridge
        factor = scipy.linalg.cho_factor(normal)
        codes = np.where(rng.random((len(x), self.bits)) < 0.5, -1, 1)
        codes = codes.astype(np.float32)
        classifier = ridge_classifier(codes, y, self.lam)
        fitted = self._project_step(phi, codes, factor)
        self.objective = [self._loss(codes, y, classifier, fitted)]
        for _ in range(self.iterations):
            target = self.nu * fitted + y @ classifier.T
            # The authors' program starts each descent from zeros, which
            # gives all rows of a label nearly the same code.
            codes = discrete_descent(
                np.zeros_like(codes), target, classifier, self.sweeps
            )
            classifier = ridge_classifier(codes, y, self.lam)
            fitted = self._project_step(phi, codes, factor)
            self.objective.append(self._loss(codes, y, classifier, fitted))
        return self

    def project(self, x):
        """[n, K]: phi(x) P."""
        return self._features(method.unit_rows(x)) @ self.projection

    def _features(self, x):
        phi = np.ones((len(x), len(self.anchors) + 1), np.float32)
        phi[:, :-1] = anchors.rbf(x, self.anchors, self.width)
        return phi

    def _project_step(self, phi, codes, factor):
        solved = scipy.linalg.cho_solve(factor, phi.T @ codes)
        self.projection = solved.astype(np.float32)
        return phi @ self.projection

    def _loss(self, codes, y, classifier, fitted):
        def norm(a):
            return float(np.sum(np.square(a), dtype=np.float64))

        fit = norm(codes - fitted) + self.ridge * norm(self.projection)
        return (
            norm(y - codes @ classifier)
            + self.lam * norm(classifier)
            + self.nu * fit
        )


def ridge_classifier(codes, y, lam) -> np.ndarray:
    """Argmin over W of |Y - B W|^2 + lam |W|^2: [K, C]."""
    normal = anchors.gram(codes) + lam * np.eye(codes.shape[1])
    return scipy.linalg.solve(normal, codes.T @ y, assume_a="pos").astype(
        np.float32
    )


def discrete_descent(codes, target, classifier, sweeps) -> np.ndarray:
    """Lowers |B W|^2 - 2 <B, Q> over B in {-1, 1}, one bit at a time.

    With the others fixed, bit k of every row has the exact minimiser
    sign(q_k - B' W' w_k), where ' leaves out bit k. A tie keeps the bit. A
    bit that is 0 is not set yet and has no effect on the others.

    Args:
        codes: [n, K], the start.
        target: [n, K], Q = Y W^T + nu phi(X) P.
        classifier: [K, C], W.
        sweeps: upper limit of passes; it stops when no bit changes.
    """
    codes = codes.copy()
    coupling = classifier @ classifier.T
    np.fill_diagonal(coupling, 0)
    for _ in range(sweeps):
        changed = False
        for k in range(codes.shape[1]):
            pull = target[:, k] - codes @ coupling[:, k]
            bit = np.where(pull == 0, codes[:, k], np.sign(pull))
            changed |= bool(np.any(bit != codes[:, k]))
            codes[:, k] = bit
        if not changed:
            break
    return codes
