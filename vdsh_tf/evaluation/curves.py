"""Curves of retrieval quality, from the counts that all metrics share."""

import numpy as np

from vdsh_tf.evaluation import metrics


def retrieval_curves(counts: metrics.Counts, points: int = 400) -> dict:
    """Precision and recall over rank and over radius, mean over queries.

    Items at equal distance come in random order, of which `by_rank` is the
    expectation: among n items at one distance, r of them relevant, each
    place expects r/n. Expected hits are therefore linear between the places
    where the distance changes.

    Args:
        counts: from `metrics.count_by_distance`.
        points: number of ranks, evenly spread in the logarithm.

    Returns:
        `by_rank`: lists `k`, `precision` (at k) and `recall`;
        `by_radius`: lists `radius`, `precision`, `recall` and `empty`, the
        share of empty balls, which count as precision zero.
    """
    total = int(counts.items[0].sum())
    k = np.unique(np.geomspace(1, total, points).round().astype(np.int64))
    relevant = np.maximum(counts.hits.sum(axis=1), 1)
    hits = expected_hits(counts, k)
    balls = [
        metrics.within_radius(counts, radius)
        for radius in range(counts.items.shape[1])
    ]
    precision, recall, empty = zip(*balls, strict=True)
    return {
        "by_rank": {
            "k": k.tolist(),
            "precision": np.mean(hits / k, axis=0).tolist(),
            "recall": np.mean(hits / relevant[:, None], axis=0).tolist(),
        },
        "by_radius": {
            "radius": list(range(len(balls))),
            "precision": list(precision),
            "recall": list(recall),
            "empty": list(empty),
        },
    }


def expected_hits(counts: metrics.Counts, k: np.ndarray) -> np.ndarray:
    """Expected number of relevant items among the first k.

    Args:
        counts: from `metrics.count_by_distance`.
        k: [points] ranks.

    Returns:
        [num_queries, points].
    """
    start = np.zeros((len(counts.items), 1), np.int64)
    items = np.concatenate([start, np.cumsum(counts.items, axis=1)], axis=1)
    hits = np.concatenate([start, np.cumsum(counts.hits, axis=1)], axis=1)
    pairs = zip(items, hits, strict=True)
    return np.stack([np.interp(k, *pair) for pair in pairs])
