"""Scans codes where they lie, on all cores, for a few queries as for many.

faiss spreads queries over cores, and so one query uses one. Here the codes are
spread when queries are few; faiss scans each part without a copy.
"""

import concurrent.futures
import itertools

import numpy as np

from vdsh_tf.search import structures

# Codes of a part: enough that a thread is worth it.
_LEAST = 1 << 18


def nearest(codes: np.ndarray, queries: np.ndarray, k: int):
    """[n, k] distances and rows of the k nearest codes, nearest first."""

    def search(part):
        faiss = structures.import_faiss()
        rows = codes[part]
        distances, found = faiss.knn_hamming(queries, rows, min(k, len(rows)))
        return distances, found + part.start

    found = _each_part(search, len(codes), len(queries))
    distances, rows = (
        np.concatenate(arrays, axis=1) for arrays in zip(*found, strict=True)
    )
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return (
        np.take_along_axis(distances, order, axis=1),
        np.take_along_axis(rows, order, axis=1),
    )


def within(codes: np.ndarray, queries: np.ndarray, radius: int):
    """For each query the distances and rows of all codes within a radius."""

    def search(part):
        return _range(codes[part], queries, radius, part.start)

    if not len(codes):
        none = (np.zeros(0, np.int32), np.zeros(0, np.int64))
        return [none] * len(queries)
    parts = _each_part(search, len(codes), len(queries))
    return [
        tuple(np.concatenate(pair) for pair in zip(*hits, strict=True))
        for hits in zip(*parts, strict=True)
    ]


def _range(codes, queries, radius, start):
    faiss = structures.import_faiss()
    count = len(queries)
    found = faiss.RangeSearchResult(count)
    # faiss means "less than".
    faiss.hamming_range_search(
        faiss.swig_ptr(queries),
        faiss.swig_ptr(codes),
        count,
        len(codes),
        radius + 1,
        codes.shape[1],
        found,
    )
    limits = faiss.rev_swig_ptr(found.lims, count + 1).astype(np.int64)
    total = int(limits[-1])
    if not total:
        none = (np.zeros(0, np.int32), np.zeros(0, np.int64))
        return [none] * count
    distances = faiss.rev_swig_ptr(found.distances, total).astype(np.int32)
    rows = faiss.rev_swig_ptr(found.labels, total) + start
    return [(distances[a:b], rows[a:b]) for a, b in itertools.pairwise(limits)]


def _each_part(search, count, queries):
    """Results of `search` for parts of the codes, in their order."""
    threads = structures.import_faiss().omp_get_max_threads()
    parts = 1 if queries >= threads else min(threads, count // _LEAST)
    ends = np.linspace(0, count, max(1, parts) + 1).astype(int)
    slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
    if len(slices) == 1:
        return [search(slices[0])]
    with concurrent.futures.ThreadPoolExecutor(len(slices)) as pool:
        return list(pool.map(search, slices))
