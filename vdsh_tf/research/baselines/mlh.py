"""Minimal Loss Hashing: a hinge on Hamming distances, bounded from above."""

import dataclasses

import numpy as np

from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class MLH(method.Method):
    """Linear codes: alike rows within a radius, all others outside of it.

    A pair at Hamming distance m costs max(m - radius + 1, 0) when alike and
    lam max(radius - m + 1, 0) when not. Stochastic steps lower its
    convex-concave bound, whose maximiser over both codes is exact, see
    `adjusted_codes`.

    Args:
        bits: code length K.
        seed: of the subset, the start and the pairs.
        radius: as a share of the bits; the paper chooses it by validation.
        lam: weight of pairs that are not alike.
        steps: number of minibatches.
        batch_size: pairs in a minibatch, half of them alike.
        learning_rate: falls linearly to zero.
        momentum: of the steps.
        decay: weight of |W|^2 / 2.
    """

    title = "MLH"
    reference = (
        "Norouzi, Fleet: Minimal Loss Hashing for Compact Binary Codes, "
        "ICML 2011"
    )
    subset = 5000

    radius: float = 0.25
    lam: float = 1.0
    steps: int = 10000
    batch_size: int = 100
    learning_rate: float = 5.0
    momentum: float = 0.9
    decay: float = 1e-4

    def fit(self, x, y):
        """Trains on a subset of rows [n, d], labels [n] or [n, C]."""
        x, y, rng = self.prepare(x, y)
        self.mean = x.mean(axis=0)
        x = self._features(x)
        self.projection = rng.normal(size=(x.shape[1], self.bits)).astype("f4")
        self.projection /= np.linalg.norm(self.projection, axis=0)
        costs = pair_costs(self.bits, self.radius, self.lam)
        velocity = np.zeros_like(self.projection)
        losses = np.zeros(self.steps)
        for step in range(self.steps):
            i, j, alike = draw_pairs(y, self.batch_size, rng)
            gradient, losses[step] = bound_gradient(
                x[i], x[j], costs[alike], self.projection
            )
            gradient += self.decay * self.projection
            rate = self.learning_rate * (1 - step / self.steps)
            velocity = self.momentum * velocity - rate * gradient
            self.projection += velocity
        parts = np.array_split(losses, min(20, self.steps))
        self.objective = [float(part.mean()) for part in parts]
        return self

    def project(self, x):
        """[n, K]: (x - mean) W."""
        return self._features(method.unit_rows(x)) @ self.projection

    def _features(self, x):
        return method.unit_rows(x - self.mean)


def pair_costs(bits: int, radius: float, lam: float) -> np.ndarray:
    """Cost of each distance 0..K for pairs not alike, alike: [2, K + 1]."""
    distance = np.arange(bits + 1)
    limit = max(1.0, round(radius * bits))
    return np.stack(
        [
            lam * np.maximum(limit - distance + 1, 0),
            np.maximum(distance - limit + 1, 0),
        ]
    ).astype(np.float32)


def draw_pairs(y, count, rng):
    """Indices i, j [count] and whether they share a label: int [count].

    About half of the pairs share one: the second row is drawn again until the
    pair is as wanted, at most 50 times.
    """
    i = rng.integers(len(y), size=count)
    j = rng.integers(len(y), size=count)
    wanted = np.arange(count) < count // 2
    alike = np.einsum("nc,nc->n", y[i], y[j]) > 0
    for _ in range(50):
        again = np.flatnonzero(alike != wanted)
        if not len(again):
            break
        j[again] = rng.integers(len(y), size=len(again))
        alike[again] = np.einsum("nc,nc->n", y[i[again]], y[j[again]]) > 0
    return i, j, alike.astype(int)


def bound_gradient(x, other, costs, projection):
    """Gradient and value of the mean bound over pairs.

    The bound is the maximum over codes of (cost + score), minus the score of
    the projections' own codes, where score = (g . W^T x + h . W^T x') / 2.

    Args:
        x, other: [n, d], both sides of the pairs.
        costs: [n, K + 1], the cost of every distance.
        projection: [d, K], W.
    """
    a, b = x @ projection, other @ projection
    g, h, value = adjusted_codes(a, b, costs)
    own_a = np.where(a > 0, np.float32(1), np.float32(-1))
    own_b = np.where(b > 0, np.float32(1), np.float32(-1))
    score = 0.5 * (np.abs(a).sum(axis=1) + np.abs(b).sum(axis=1))
    slope = x.T @ (g - own_a) + other.T @ (h - own_b)
    return slope * (0.5 / len(x)), float(np.mean(value - score))


def adjusted_codes(a, b, costs):
    """Argmax over g, h in {-1, 1}^K of cost(|g - h|) + (g . a + h . b) / 2.

    A bit in which g and h differ scores |a - b| / 2, one in which they agree
    |a + b| / 2. For each distance m, the m bits that gain most from differing
    differ; the best m is taken.

    Args:
        a, b: [n, K].
        costs: [n, K + 1].

    Returns:
        g, h: [n, K]; and the maximum [n].
    """
    num, bits = a.shape
    apart, together = np.abs(a - b) / 2, np.abs(a + b) / 2
    gain = apart - together
    order = np.argsort(-gain, axis=1, kind="stable")
    total = np.zeros((num, bits + 1), a.dtype)
    np.cumsum(np.take_along_axis(gain, order, axis=1), axis=1, out=total[:, 1:])
    total += costs
    distance = total.argmax(axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(bits)[None], axis=1)
    differ = rank < distance[:, None]
    first = np.where(differ, a - b, a + b) > 0
    g = np.where(first, 1, -1).astype(a.dtype)
    h = np.where(differ, -g, g)
    best = total[np.arange(num), distance] + together.sum(axis=1)
    return g, h, best
