"""FastHash: target bits by graph cuts, learnt by boosted trees."""

import dataclasses

import numpy as np
import scipy.sparse
from scipy.sparse import csgraph

from vdsh_tf.research.baselines import affinity
from vdsh_tf.research.baselines import boosted_trees
from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class FastHash(method.Method):
    """Two steps per bit: target values of the rows, then trees for them.

    A pair at Hamming distance m of r bits costs m^2 when alike and
    max(r/2 - m, 0)^2 when not. Given the bits before it, bit r lowers the cost
    of r bits, as in the authors' program: a binary quadratic problem. Rows
    that share a label attract each other, so a block of them has an exact
    minimiser by a minimum cut; blocks are solved one after another. Then trees
    learn the bit, and the next bits are solved given the trees' predictions.

    Args:
        bits: code length K.
        seed: of the subset, the start of a bit and the features of a tree.
        block_size: upper limit of rows in a block.
        sweeps: passes over the blocks per bit.
        trees: boosted per bit.
        depth: of a tree.
        bins: into which a feature is quantised.
        num_features: drawn for each tree.
        trim: share of the weight of the rows that a tree sees.
    """

    title = "FastHash"
    reference = (
        "Lin, Shen, Shi, van den Hengel, Suter: Fast Supervised Hashing with "
        "Decision Trees, CVPR 2014"
    )
    subset = 5000

    block_size: int = 100
    sweeps: int = 2
    trees: int = 200
    depth: int = 4
    bins: int = 32
    num_features: int = 40
    trim: float = 0.9

    def fit(self, x, y):
        """Trains on a subset of rows [n, d], labels [n] or [n, C]."""
        x, y, rng = self.prepare(x, y)
        self.edges = boosted_trees.fit_edges(x, self.bins)
        binned = boosted_trees.quantise(x, self.edges)
        blocks = similar_blocks(y, self.block_size)
        # Row of the cost table and place in it, for each pair.
        pairs = np.where(affinity.dense(y) > 0, self.bits + 1, 0)
        pairs = pairs.astype(np.int16)
        self.forests, self.objective = [], []
        for r in range(1, self.bits + 1):
            coupling = bit_coupling(pairs, self.bits, r)
            target = solve_bit(coupling, blocks, self.sweeps, rng)
            on = self._fit_trees(binned, target > 0, rng)
            pairs += on[:, None] != on
            self.objective.append(mean_cost(pairs, self.bits))
        return self

    def _fit_trees(self, binned, target, rng):
        """Adds the trees of one bit; returns their predictions, [n] bool."""
        forest, votes = boosted_trees.boost(
            binned,
            target,
            self.trees,
            self.depth,
            self.bins,
            self.num_features,
            self.trim,
            rng,
        )
        self.forests.append(forest)
        return votes > 0

    def project(self, x):
        """[n, K]: the votes of each bit's trees."""
        binned = boosted_trees.quantise(method.unit_rows(x), self.edges)
        votes = [boosted_trees.vote(f, binned) for f in self.forests]
        return np.stack(votes, axis=1)


def pair_costs(bits: int, length: int) -> np.ndarray:
    """4 times the cost of distances 0..K, not alike and alike: [2, K + 1].

    Args:
        bits: K.
        length: r, number of bits that are solved.
    """
    distance = np.arange(bits + 1)
    apart = np.maximum(length - 2 * distance, 0)
    return np.stack([apart**2, (2 * distance) ** 2])


def bit_coupling(pairs, bits: int, length: int) -> np.ndarray:
    """A: [n, n] float32; bit r, z in {-1, 1}, should lower z^T A z / 2.

    a_ij = (cost of agreeing - cost of differing) / 2, zero on the diagonal.

    Args:
        pairs: [n, n], places in the flattened `pair_costs`.
        bits, length: K and r.
    """
    costs = pair_costs(bits, length).ravel()
    slope = np.append((costs[:-1] - costs[1:]) / 2, 0).astype(np.float32)
    coupling = _look_up(slope, pairs)
    np.fill_diagonal(coupling, 0)
    return coupling


def mean_cost(pairs, bits: int) -> float:
    """Mean cost of a pair over all K bits."""
    costs = pair_costs(bits, bits).ravel() / 4
    return float(_look_up(costs.astype(np.float32), pairs).mean(dtype="f8"))


def _look_up(table, places):
    found = np.empty(places.shape, table.dtype)
    for row, place in zip(found, places, strict=True):
        np.take(table, place, out=row, mode="clip")
    return found


def similar_blocks(y: np.ndarray, size: int) -> list[np.ndarray]:
    """Divides rows so that those of a block share a label: index arrays."""
    free = np.ones(len(y), bool)
    blocks = []
    for member in y.T > 0:
        rows = np.flatnonzero(member & free)
        free[rows] = False
        blocks += [rows[i : i + size] for i in range(0, len(rows), size)]
    return blocks + [np.array([i]) for i in np.flatnonzero(free)]


def solve_bit(coupling, blocks, sweeps, rng) -> np.ndarray:
    """Lowers z^T A z over z in {-1, 1}^n block by block: [n] float32.

    Starts from the signs of a few power iterations towards the smallest
    eigenvalue.
    """
    z = rng.normal(size=len(coupling)).astype(np.float32)
    for _ in range(10):
        z = -(coupling @ z)
        z /= max(float(np.linalg.norm(z)), 1e-12)
    z = np.where(z > 0, np.float32(1), np.float32(-1))
    for _ in range(sweeps):
        before = z.copy()
        for block in blocks:
            inner = coupling[np.ix_(block, block)]
            outer = coupling[block] @ z - inner @ z[block]
            z[block] = solve_block(inner, outer)
        if np.array_equal(before, z):
            break
    return z


def solve_block(inner, outer) -> np.ndarray:
    """Argmin over z in {-1, 1}^b of z^T A z / 2 + u^T z, by a minimum cut.

    Rows that are alike have a_ij <= 0: a pair costs 2 |a_ij| if it is cut, a
    row 2 |u_i| if its sign is not that of -u_i. `pair_costs` makes these
    integers.

    Args:
        inner: [b, b], A, symmetric with no entry > 0.
        outer: [b], u.
    """
    size = len(outer)
    if np.all(outer <= 0) or np.all(outer >= 0):
        # No row prefers the other sign, so all take the same.
        agreed = 1 if outer.sum() <= 0 else -1
        return np.full(size, agreed, np.float32)
    capacity = np.zeros((size + 2, size + 2), np.int32)
    capacity[:size, :size] = np.rint(-2 * inner)
    capacity[size, :size] = np.rint(np.maximum(-2 * outer, 0))
    capacity[:size, size + 1] = np.rint(np.maximum(2 * outer, 0))
    graph = scipy.sparse.csr_array(capacity)
    flow = csgraph.maximum_flow(graph, size, size + 1).flow
    residual = scipy.sparse.csr_array(capacity - flow.toarray() > 0)
    reached = csgraph.breadth_first_order(
        residual, size, return_predecessors=False
    )
    z = np.full(size + 2, -1, np.float32)
    z[reached] = 1
    return z[:size]
