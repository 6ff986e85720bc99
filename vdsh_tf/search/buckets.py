"""Codes in the order of their first bits: buckets without pointers.

A bucket is a stretch of the sorted codes, so that it is used where it lies in
a mapped file. Codes at most r apart differ in at most r of the first bits: the
buckets r flips away hold all of them.
"""

import functools
import itertools

import numpy as np

from vdsh_tf.search import map_files

MOST_FLIPS = 3
# As far as `nearest` flips bits.
_REACH = 2
# Codes that share a bucket, if they spread evenly.
_PER_BUCKET = 64
_STEP = 1 << 22


def sort(bits: int, codes: np.ndarray, ids: np.ndarray | None = None) -> dict:
    """The arrays of a mapped "hash" index; equal codes keep their order."""
    prefix = prefix_of(len(codes), bits)
    keys = np.empty(len(codes), np.uint32)
    for start in range(0, len(codes), _STEP):
        keys[start : start + _STEP] = first_bits(
            codes[start : start + _STEP], prefix
        )
    counts = np.bincount(keys, minlength=1 << prefix)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    order = np.argsort(keys, kind="stable")
    del keys
    return {
        "codes": np.asarray(codes)[order],
        "ids": order if ids is None else ids[order],
        "starts": starts,
    }


def prefix_of(count: int, bits: int) -> int:
    """First bits that buckets are made of, for so many codes."""
    wanted = max(8, (count // _PER_BUCKET).bit_length())
    return min(bits, wanted, map_files.MOST_PREFIX)


def first_bits(codes: np.ndarray, prefix: int) -> np.ndarray:
    """[n] uint32, the first `prefix` bits of packed codes as a number."""
    found = np.zeros(len(codes), np.uint32)
    width = min(4, codes.shape[1])
    for byte in range(width):
        found |= codes[:, byte].astype(np.uint32) << (24 - 8 * byte)
    return found >> (32 - prefix)


@functools.cache
def flips(prefix: int, most: int) -> np.ndarray:
    """Numbers that flip up to `most` of `prefix` bits."""
    masks = [0]
    for count in range(1, min(most, prefix) + 1):
        for places in itertools.combinations(range(prefix), count):
            masks.append(sum(1 << place for place in places))
    return np.array(masks, np.uint32)


class Buckets:
    """Searches sorted codes.

    Args:
        codes: [n, bytes] uint8, sorted by their first bits.
        starts: [2^prefix + 1] int64, where each bucket begins.
    """

    def __init__(self, codes: np.ndarray, starts: np.ndarray):
        self._codes = codes
        self._starts = np.array(starts)
        self._prefix = (len(starts) - 1).bit_length() - 1

    def within(self, code: np.ndarray, radius: int):
        """Distances and rows of all codes at most `radius` from `code`."""
        rows = self._rows(code, radius)
        distances = distances_to(self._codes[rows], code)
        near = distances <= radius
        return distances[near], rows[near]

    def nearest(self, code: np.ndarray, k: int):
        """As `within`, the k nearest; None if they are not near enough."""
        distances, rows = self.within(code, _REACH)
        if len(rows) < k:
            return None
        order = np.argsort(distances, kind="stable")[:k]
        return distances[order], rows[order]

    def _rows(self, code, radius):
        key = first_bits(code[None], self._prefix)
        keys = np.sort(key ^ flips(self._prefix, radius))
        begins = self._starts[keys]
        sizes = self._starts[keys + 1] - begins
        shift = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
        return shift + np.arange(len(shift))


def distances_to(codes: np.ndarray, code: np.ndarray) -> np.ndarray:
    """[n] int32, bits in which each of the codes differs from one."""
    different = np.bitwise_xor(codes, code)
    width = different.shape[1]
    for size, kind in ((8, np.uint64), (4, np.uint32), (2, np.uint16)):
        if width % size == 0:
            different = different.view(kind)
            break
    return np.bitwise_count(different).sum(axis=1, dtype=np.int32)
