"""NDCG: retrieval where an item counts by the number of labels it shares."""

import numpy as np

from vdsh_tf import codes as codes_lib


def ndcg(
    query_codes, query_labels, database_codes, database_labels, k: int = 100
) -> float:
    """Normalised discounted cumulative gain of the first k, tie-aware.

    An item's gain is the number of labels that it shares with the query (one
    or none for labels [n]), at place i divided by log2(1 + i). Items at equal
    distance come in random order, of which this is the expectation. A query
    without relevant items counts as zero.

    Args:
        query_codes, database_codes: [n, bytes] uint8, packed.
        query_labels, database_labels: [n] integers or [n, C] multi-hot.
        k: number of places.
    """
    words = codes_lib.as_words(database_codes)
    k = min(k, len(words))
    discount = 1.0 / np.log2(2.0 + np.arange(k))
    found = []
    pairs = zip(codes_lib.as_words(query_codes), query_labels, strict=True)
    for word, label in pairs:
        distance = np.bitwise_count(words ^ word).sum(axis=1, dtype=np.int64)
        gains = shared_labels(label, database_labels)
        best = np.partition(gains, len(gains) - k)[len(gains) - k :]
        ideal = np.sort(best)[::-1] @ discount
        got = expected_gains(distance, gains, k) @ discount
        found.append(got / ideal if ideal else 0.0)
    return float(np.mean(found))


def shared_labels(label, labels) -> np.ndarray:
    """Labels that each item shares with a query: [n] float64."""
    labels = np.asarray(labels)
    if labels.ndim == 1:
        return (labels == label).astype(np.float64)
    return labels.astype(np.float64) @ np.asarray(label, np.float64)


def expected_gains(distance, gains, k: int) -> np.ndarray:
    """Expected gain at each of the first k places: [k]."""
    items = np.bincount(distance)
    total = np.bincount(distance, weights=gains)
    mean = np.divide(total, items, out=np.zeros_like(total), where=items > 0)
    ends = np.cumsum(items)
    return mean[np.searchsorted(ends, np.arange(k), side="right")]
