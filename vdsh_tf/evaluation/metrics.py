"""Retrieval quality of binary codes, in NumPy.

One pass over all distances counts, for each query, the items and the relevant
items at every Hamming distance; every metric follows from these counts. Memory
is bounded by the chunk, not by the database.

Conventions, the same everywhere: mAP ranks the whole database and takes the
expectation over random order among items at equal distance; an empty ball
counts as precision zero and its share is reported; a query without relevant
items counts, as zero.
"""

from typing import NamedTuple

import numpy as np

from vdsh_tf import codes as codes_lib

_CHUNK_PAIRS = 1 << 24


class Counts(NamedTuple):
    """Items at each distance 0..8 * bytes of a code, one row per query.

    Attributes:
        items: [num_queries, distances] int64, database items.
        hits: [num_queries, distances] int64, relevant ones among them.
    """

    items: np.ndarray
    hits: np.ndarray


def evaluate(
    query_codes, query_labels, database_codes, database_labels, bits
) -> dict[str, float]:
    """All retrieval metrics of one code as plain numbers.

    Args:
        query_codes, database_codes: [n, ceil(bits/8)] uint8, packed.
        query_labels, database_labels: [n] integers (relevant: equal) or
            [n, C] multi-hot (relevant: share a label).
        bits: code length K.

    Returns:
        `map`; `precision_r{0,1,2}`, `recall_r{0,1,2}`, `empty_r{0,1,2}`;
        `distinct_codes` of the database, `bit_balance` (mean over bits of
        2 min(p, 1 - p), 1 when every bit splits the database in halves) and
        `constant_bits`.
    """
    codes_lib.check(query_codes, bits, "query_codes")
    codes_lib.check(database_codes, bits, "database_codes")
    counts = count_by_distance(
        query_codes, query_labels, database_codes, database_labels
    )
    return summarize(counts, database_codes, bits)


def summarize(counts: Counts, database_codes, bits) -> dict[str, float]:
    """The metrics of `evaluate`, from counts that are there already."""
    result = {"map": mean_average_precision(counts)}
    for radius in (0, 1, 2):
        precision, recall, empty = within_radius(counts, radius)
        result[f"precision_r{radius}"] = precision
        result[f"recall_r{radius}"] = recall
        result[f"empty_r{radius}"] = empty
    result.update(code_statistics(database_codes, bits))
    return result


def count_by_distance(
    query_codes, query_labels, database_codes, database_labels
) -> Counts:
    """Counts items and relevant items at every distance from each query."""
    _check_pairing(query_codes, query_labels, "query")
    _check_pairing(database_codes, database_labels, "database")
    if query_codes.shape[1] != database_codes.shape[1]:
        raise ValueError(
            "query and database codes must have the same width in bytes. "
            f"Received: {query_codes.shape[1]} and {database_codes.shape[1]}."
        )
    width = 8 * query_codes.shape[1] + 1
    query_words = codes_lib.as_words(query_codes)
    items = np.zeros((len(query_codes), width), np.int64)
    hits = np.zeros_like(items)
    rows = max(1, _CHUNK_PAIRS // max(1, len(query_codes)))
    for start in range(0, len(database_codes), rows):
        part = slice(start, start + rows)
        words = codes_lib.as_words(database_codes[part])
        relevant = relevance(query_labels, database_labels[part])
        for q, word in enumerate(query_words):
            distance = _distances(word, words)
            items[q] += np.bincount(distance, minlength=width)
            hits[q] += np.bincount(distance[relevant[q]], minlength=width)
    return Counts(items, hits)


def relevance(query_labels, database_labels) -> np.ndarray:
    """Whether each pair shares a label: [num_queries, num_items] bool."""
    query_labels = np.asarray(query_labels)
    database_labels = np.asarray(database_labels)
    if query_labels.ndim != database_labels.ndim:
        raise ValueError(
            "query and database labels must be of one kind, integers [n] or "
            f"multi-hot [n, C]. Received: shapes {query_labels.shape} and "
            f"{database_labels.shape}."
        )
    if query_labels.ndim == 1:
        return query_labels[:, None] == database_labels[None, :]
    shared = query_labels.astype(np.float32) @ database_labels.T.astype(
        np.float32
    )
    return shared > 0


def mean_average_precision(counts: Counts) -> float:
    """Tie-aware mAP over the whole database.

    In a group of n items at one distance, r of them relevant, after N0 items
    with R0 relevant ones, a random order puts a relevant item at place i with
    probability r/n, and then expects R0 + 1 + (i - 1)(r - 1)/(n - 1) relevant
    items up to it. Summed over i = 1..n this needs only harmonic numbers:

        sum 1/(N0 + i)       = H(N0 + n) - H(N0)
        sum (i - 1)/(N0 + i) = n - (N0 + 1) (H(N0 + n) - H(N0))
    """
    n = counts.items.astype(np.float64)
    r = counts.hits.astype(np.float64)
    before = np.cumsum(counts.items, axis=1) - counts.items
    hits_before = np.cumsum(r, axis=1) - r
    harmonic = np.concatenate(
        [[0.0], np.cumsum(1.0 / np.arange(1, counts.items[0].sum() + 1))]
    )
    first = harmonic[before + counts.items] - harmonic[before]
    second = n - (before + 1) * first
    others = np.divide(r - 1, n - 1, out=np.zeros_like(r), where=n > 1)
    share = np.divide(r, n, out=np.zeros_like(r), where=n > 0)
    gain = share * ((hits_before + 1) * first + others * second)
    relevant = r.sum(axis=1)
    return float(np.mean(gain.sum(axis=1) / np.maximum(relevant, 1)))


def within_radius(counts: Counts, radius: int) -> tuple[float, float, float]:
    """Mean precision and recall in a Hamming ball; share of empty balls."""
    if radius < 0:
        raise ValueError(f"`radius` must be >= 0. Received: radius={radius}.")
    items = counts.items[:, : radius + 1].sum(axis=1)
    hits = counts.hits[:, : radius + 1].sum(axis=1)
    relevant = counts.hits.sum(axis=1)
    precision = np.mean(hits / np.maximum(items, 1))
    recall = np.mean(hits / np.maximum(relevant, 1))
    return float(precision), float(recall), float(np.mean(items == 0))


def code_statistics(codes: np.ndarray, bits: int) -> dict[str, float]:
    """How the codes use their bits; accuracy does not show a collapse."""
    share = codes_lib.unpack(codes, bits).mean(axis=0)
    words = codes_lib.as_words(codes)
    return {
        "distinct_codes": len(np.unique(words, axis=0)),
        "bit_balance": float(np.mean(2 * np.minimum(share, 1 - share))),
        "constant_bits": int(np.sum((share == 0) | (share == 1))),
    }


def _distances(word, words):
    distance = np.bitwise_count(words[:, 0] ^ word[0]).astype(np.int64)
    for j in range(1, len(word)):
        distance += np.bitwise_count(words[:, j] ^ word[j])
    return distance


def _check_pairing(codes, labels, name):
    codes_lib.check(codes, name=f"{name}_codes")
    if len(codes) == 0:
        raise ValueError(f"There must be at least one {name} item, got none.")
    if len(codes) != len(labels):
        raise ValueError(
            f"Every {name} code needs its label. Received: {len(codes)} codes "
            f"and {len(labels)} labels."
        )
