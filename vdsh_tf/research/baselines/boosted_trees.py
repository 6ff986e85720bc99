"""AdaBoost over shallow decision trees on quantised features."""

from typing import Any
from typing import NamedTuple

import numpy as np

_CHUNK = 1 << 15
# Bounds the vote of a tree that classifies every row correctly.
_LEAST_ERROR = 1e-3


class Forest(NamedTuple):
    """Boosted trees of one depth, their nodes in heap order.

    Attributes:
        feature: [trees, 2^depth - 1], the feature that a node compares.
        cut: [trees, 2^depth - 1] uint8; a row goes right where bin > cut.
        leaf: [trees, 2^depth] bool, the class of a leaf.
        weight: [trees] float32, the vote of a tree.
    """

    feature: np.ndarray
    cut: np.ndarray
    leaf: np.ndarray
    weight: np.ndarray


def fit_edges(x: np.ndarray, bins: int) -> np.ndarray:
    """Edges of the bins: quantiles of each feature's distinct values.

    Args:
        x: [n, d].
        bins: at most 256.

    Returns:
        [d, bins - 1], ascending.
    """
    shares = np.linspace(0, 1, bins + 1)[1:-1]
    columns = [np.quantile(np.unique(column), shares) for column in x.T]
    return np.stack(columns).astype(x.dtype)


def quantise(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Bin numbers, one row per feature: [n, d] -> [d, n] uint8."""
    binned = np.empty(x.shape[::-1], np.uint8)
    for f, edge in enumerate(edges):
        binned[f] = np.searchsorted(edge, x[:, f])
    return binned


def boost(binned, target, trees, depth, bins, num_features, trim, rng):
    """Fits a forest to a target by discrete AdaBoost.

    Each tree sees features drawn at random (LazyBoost) and the rows that hold
    most of the weight (weight trimming).

    Args:
        binned: [d, n] uint8.
        target: [n] bool.
        trees: number of trees.
        depth: of a tree.
        bins: of a feature.
        num_features: drawn for each tree.
        trim: share of the weight that a tree trains on.
        rng: draws the features.

    Returns:
        The Forest and its votes on the rows, [n] float32.
    """
    num = len(target)
    votes = np.zeros(num, np.float32)
    side = np.where(target, np.float32(1), np.float32(-1))
    grown = []
    for _ in range(trees):
        margin = side * votes
        weight = np.exp(margin.min() - margin)
        weight /= weight.sum()
        rows = heavy_rows(weight, trim)
        picked = rng.choice(
            len(binned), min(num_features, len(binned)), replace=False
        )
        feature, cut, leaf = grow_tree(
            binned[np.ix_(picked, rows)],
            target[rows],
            weight[rows],
            depth,
            bins,
        )
        feature = picked[feature]
        predicted = classify(binned, feature, cut, leaf)
        error = float(weight[predicted != target].sum())
        error = min(max(error, _LEAST_ERROR), 0.5)
        vote = 0.5 * np.log((1 - error) / error)
        votes += np.where(predicted, np.float32(vote), np.float32(-vote))
        grown.append((feature, cut, leaf, vote))
    feature, cut, leaf, vote = (
        np.stack(part) for part in zip(*grown, strict=True)
    )
    return Forest(feature, cut, leaf, vote.astype(np.float32)), votes


def heavy_rows(weight: np.ndarray, trim: float) -> np.ndarray:
    """The fewest rows that hold a share `trim` of the weight, in order."""
    order = np.argsort(-weight, kind="stable")
    count = np.searchsorted(np.cumsum(weight[order]), trim * weight.sum()) + 1
    return np.sort(order[:count])


def grow_tree(binned, target, weight, depth, bins):
    """Fits a tree, level by level, by the Gini impurity of its splits.

    Args:
        binned: [f, n] uint8, of the features to choose from.
        target: [n] bool.
        weight: [n].
        depth, bins: as in `boost`.

    Returns:
        feature [2^depth - 1] (into the f), cut [2^depth - 1] and
        leaf [2^depth].
    """
    feature = np.zeros(2**depth - 1, np.intp)
    cut = np.zeros(2**depth - 1, np.uint8)
    node = np.zeros(len(target), np.intp)
    all_rows = np.arange(len(target))
    keys = 2 * binned.astype(np.intp) + target
    for level in range(depth):
        nodes = 2**level
        best_feature, best_cut = best_splits(keys, node, weight, nodes, bins)
        heap = slice(nodes - 1, 2 * nodes - 1)
        feature[heap], cut[heap] = best_feature, best_cut
        right = binned[best_feature[node], all_rows] > best_cut[node]
        node = 2 * node + right
    pull = np.where(target, weight, -weight)
    return feature, cut, np.bincount(node, pull, 2**depth) > 0


def best_splits(keys, node, weight, nodes, bins):
    """Feature and cut of the lowest impurity for each node of a level.

    The impurity of a side with weights p and q of the classes is
    p q / (p + q).

    Args:
        keys: [f, n], 2 bin + class.
        node: [n], the node a row is in.
        weight: [n].
        nodes, bins: how many there are.

    Returns:
        feature [nodes], cut [nodes].
    """
    num_features = len(keys)
    offset = np.arange(num_features)[:, None] * nodes + node
    flat = (offset * (2 * bins) + keys).ravel()
    mass = np.bincount(
        flat, np.tile(weight, num_features), num_features * nodes * 2 * bins
    )
    left = mass.reshape(num_features, nodes, bins, 2).cumsum(axis=2)
    right = left[:, :, -1:] - left
    cost = _impurity(left) + _impurity(right)
    cost = cost.transpose(1, 0, 2).reshape(nodes, -1)
    return np.divmod(cost.argmin(axis=1), bins)


def _impurity(mass):
    p, q = mass[..., 0], mass[..., 1]
    return p * q / np.maximum(p + q, 1e-12)


def classify(binned, feature, cut, leaf) -> np.ndarray:
    """The class of every row by one tree: [n] bool.

    Every node is evaluated for every row, then results are selected from the
    leaves up: byte operations, much faster than walking down row by row.
    """
    classes: list[Any] = [np.bool_(value) for value in leaf]
    for n in range(len(feature) - 1, -1, -1):
        right = binned[feature[n]] > cut[n]
        if_right, if_left = classes.pop(), classes.pop()
        classes.insert(0, (right & if_right) | (~right & if_left))
    return classes[0]


def vote(forest: Forest, binned: np.ndarray) -> np.ndarray:
    """Sum of the trees' votes: [n] float32, > 0 for the target class."""
    total = np.zeros(binned.shape[1], np.float32)
    for start in range(0, len(total), _CHUNK):
        part = np.ascontiguousarray(binned[:, start : start + _CHUNK])
        votes = total[start : start + _CHUNK]
        for feature, cut, leaf, weight in zip(*forest, strict=True):
            predicted = classify(part, feature, cut, leaf)
            votes += np.where(predicted, weight, -weight)
    return total
