"""Kernel features: how close a row is to each of a few anchors."""

import numpy as np

_CHUNK = 8192


def draw(x: np.ndarray, count: int, rng) -> np.ndarray:
    """At most `count` distinct rows of x: [m, d]."""
    index = rng.choice(len(x), min(count, len(x)), replace=False)
    return x[np.sort(index)]


def squared_distances(x: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """|x_i - a_j|^2 >= 0: [n, d], [m, d] -> [n, m]."""
    cross = x @ anchors.T
    cross *= -2
    cross += np.sum(np.square(x), axis=1)[:, None]
    cross += np.sum(np.square(anchors), axis=1)
    return np.maximum(cross, 0, out=cross)


def rbf(x: np.ndarray, anchors: np.ndarray, width: float) -> np.ndarray:
    """exp(-|x_i - a_j|^2 / (2 width^2)): [n, m]."""
    scaled = squared_distances(x, anchors)
    scaled *= -0.5 / width**2
    return np.exp(scaled, out=scaled)


def gram(x: np.ndarray) -> np.ndarray:
    """x^T x summed in float64, chunk by chunk: [n, d] -> [d, d]."""
    total = np.zeros((x.shape[1],) * 2)
    for start in range(0, len(x), _CHUNK):
        rows = x[start : start + _CHUNK].astype(np.float64)
        total += rows.T @ rows
    return total
