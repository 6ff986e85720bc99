"""Binary Reconstructive Embedding: codes that reconstruct given distances."""

import dataclasses

import numpy as np

from vdsh_tf.research.baselines import anchors
from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class BRE(method.Method):
    """Exact coordinate descent on the weights of kernel hash functions.

    Minimises over pairs the squared error between their Hamming distance / K
    and their target, 0 when alike and 1 when not (the supervised form). Bit p
    is sum_q W_qp k(x, a_qp) > 0 on landmarks of its own. One weight at a time
    moves to its exact optimum, see `best_shift`.

    Args:
        bits: code length K.
        seed: of the subset, the landmarks, the start and the pairs.
        landmarks: per bit.
        pairs: per row, half of them alike.
        width: of the kernel, for rows of unit length.
        sweeps: passes over all weights.
    """

    title = "BRE"
    reference = (
        "Kulis, Darrell: Learning to Hash with Binary Reconstructive "
        "Embeddings, NIPS 2009"
    )
    subset = 5000

    landmarks: int = 50
    pairs: int = 50
    width: float = 0.4
    sweeps: int = 2

    def fit(self, x, y):
        """Trains on a subset of rows [n, d], labels [n] or [n, C]."""
        x, y, rng = self.prepare(x, y)
        first, second, target = draw_targets(y, self.pairs, rng)
        count = min(self.landmarks, len(x))
        # The bits share a pool of anchors, so that encoding computes one kernel
        # matrix.
        self.anchors = anchors.draw(x, 20 * count, rng)
        phi = anchors.rbf(x, self.anchors, self.width)
        self.mean = phi.mean(axis=0)
        phi -= self.mean
        size = (len(self.anchors), self.bits)
        self.projection = np.zeros(size, np.float32)
        used = [
            rng.choice(len(self.anchors), count, replace=False)
            for _ in range(self.bits)
        ]
        for p, index in enumerate(used):
            self.projection[index, p] = rng.normal(size=count)
        self._descend(phi, used, first, second, target)
        return self

    def project(self, x):
        """[n, K]: (phi(x) - mean) W."""
        phi = anchors.rbf(method.unit_rows(x), self.anchors, self.width)
        return (phi - self.mean) @ self.projection

    def _descend(self, phi, used, first, second, target):
        bits = self.bits
        scores = phi @ self.projection
        on = scores > 0
        residual = target - np.mean(on[first] != on[second], axis=1)
        self.objective = [float(np.mean(np.square(residual)))]
        columns = np.ascontiguousarray(phi.T)
        for _ in range(self.sweeps):
            for p, index in enumerate(used):
                score = scores[:, p].copy()
                residual += (on[first, p] != on[second, p]) / bits
                # The loss of the pair is a constant plus this if bit p differs.
                price = (1 / bits - 2 * residual) / bits
                for q in index:
                    shift = best_shift(score, columns[q], first, second, price)
                    score += shift * columns[q]
                    self.projection[q, p] += shift
                scores[:, p] = score
                on[:, p] = score > 0
                residual -= (on[first, p] != on[second, p]) / bits
            self.objective.append(float(np.mean(np.square(residual))))


def draw_targets(y, count, rng):
    """Pairs i, j [n count] and their target distance: 0 if alike, else 1.

    Each row is paired with `count` others, half of them alike if there are
    enough.
    """
    firsts, seconds = [], []
    for i in range(len(y)):
        alike = y @ y[i] > 0
        alike[i] = False
        near = np.flatnonzero(alike)
        alike[i] = True
        far = np.flatnonzero(~alike)
        for pool, part in ((near, count // 2), (far, count - count // 2)):
            drawn = rng.permutation(pool)[:part]
            firsts.append(np.full(len(drawn), i))
            seconds.append(drawn)
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    target = np.einsum("nc,nc->n", y[first], y[second]) == 0
    return first, second, target.astype(np.float32)


def best_shift(score, column, first, second, price) -> np.float32:
    """The change of one weight that lowers the loss most, or zero.

    As the shift t grows, the bit of row i changes once, at
    t_i = -score_i / column_i. A pair differs from its state at t = -inf just
    between the turning points of its two rows, so cumulative sums over the
    ordered turning points give the loss at every t.

    Args:
        score: [n], the bit's response before the shift.
        column: [n], what a shift of one adds to it.
        first, second: [m], the pairs.
        price: [m], loss of a pair when the bit differs in it.
    """
    moving = column != 0
    turn = np.full_like(score, np.inf)
    np.divide(-score, column, out=turn, where=moving)
    order = np.argsort(turn, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    start = np.where(moving, column < 0, score > 0)
    change = np.where(start[first] != start[second], -price, price)
    a, b = place[first], place[second]
    size = len(score) + 1
    steps = np.bincount(np.minimum(a, b), change, size)
    steps -= np.bincount(np.maximum(a, b), change, size)
    # levels[r]: loss after the bits of the first r rows have changed.
    levels = np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    turns = turn[order]
    count = int(np.isfinite(turns).sum())
    edges = np.concatenate([[-np.inf], turns[:count], [np.inf]])
    lengths = edges[1:] - edges[:-1]
    # In float32 no shift lies safely inside a very short interval.
    shortest = 1e-6 * np.maximum(1e-3, np.abs(edges[1:]))
    levels = np.where(lengths > shortest, levels[: count + 1], np.inf)
    best = int(levels.argmin())
    now = int(np.searchsorted(edges[1:-1], 0.0))
    if levels[best] >= levels[now] - 1e-9 * abs(levels[now]):
        return np.float32(0)
    return _inside(edges[best], edges[best + 1])


def _inside(low, high) -> np.float32:
    """A number between two edges, one of which may be infinite."""
    if np.isinf(low) and np.isinf(high):
        return np.float32(0)
    if np.isinf(low):
        return np.float32(high - max(1.0, abs(high)))
    if np.isinf(high):
        return np.float32(low + max(1.0, abs(low)))
    return np.float32((low + high) / 2)
