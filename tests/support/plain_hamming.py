"""Hamming search the slow, plain way: all pairs, from unpacked bits."""

import numpy as np

from vdsh_tf import codes as codes_lib


def random_codes(rng, n, bits, clusters=None, flips=2):
    """Packed codes; with `clusters`, near-copies of a few centres."""
    rows = rng.integers(0, 2, (n, bits), dtype=np.uint8)
    if clusters:
        centres = rng.integers(0, 2, (clusters, bits), dtype=np.uint8)
        rows = centres[rng.integers(0, clusters, n)]
        for _ in range(flips):
            at = rng.integers(0, bits, n)
            rows[np.arange(n), at] ^= rng.integers(0, 2, n, dtype=np.uint8)
    return codes_lib.pack(rows)


def all_distances(queries, codes):
    """Hamming distances from unpacked bits: the slow, plain way."""
    q = np.unpackbits(queries, axis=1).astype(np.int32)
    c = np.unpackbits(codes, axis=1).astype(np.int32)
    return (q[:, None, :] != c[None, :, :]).sum(axis=2)


def check_search(found, k, queries, codes, ids, exact=True):
    """Hits are real, distinct and rising; exact ones are the nearest."""
    distance = all_distances(queries, codes)
    row_of = {number: row for row, number in enumerate(ids.tolist())}
    for q in range(len(queries)):
        rows = [row_of[number] for number in found.ids[q].tolist()]
        assert len(set(rows)) == k
        np.testing.assert_array_equal(distance[q, rows], found.distances[q])
        assert (np.diff(found.distances[q]) >= 0).all()
        if exact:
            nearest = np.sort(distance[q])[:k]
            np.testing.assert_array_equal(found.distances[q], nearest)


def check_ball(found, radius, queries, codes, ids):
    """Exactly the items within the radius, at their distances."""
    distance = all_distances(queries, codes)
    assert len(found.limits) == len(queries) + 1
    for q in range(len(queries)):
        distances, got = found.sorted_hits(q)
        inside = distance[q] <= radius
        want = sorted(zip(distance[q][inside], ids[inside], strict=True))
        assert list(zip(distances, got, strict=True)) == want
