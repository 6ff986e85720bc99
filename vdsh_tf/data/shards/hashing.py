"""64 bits that stand for a row, and what is drawn by them.

A row's contents are hashed by sums of products modulo 2^64 with fixed random
factors: as fast as memory, and good enough to notice accidents. It is no
defence against someone who makes two rows collide on purpose.
"""

import hashlib

import numpy as np

_FACTORS = 0x5D5BC3  # Seed of the factors; part of what is kept on disk.
_ROWS = 1024


def of_rows(x: np.ndarray) -> np.ndarray:
    """Hashes of the contents of rows [n, d]: uint64 [n].

    Equal rows have equal hashes; shape, place and file do not count.
    """
    size = x.shape[1] * x.dtype.itemsize
    words = -(-size // 8)
    factors = np.random.default_rng(_FACTORS).integers(
        2**64, size=words, dtype=np.uint64
    ) | np.uint64(1)
    result = np.empty(len(x), np.uint64)
    for start in range(0, len(x), _ROWS):
        part = np.ascontiguousarray(x[start : start + _ROWS])
        octets = part.view(np.uint8).reshape(len(part), size)
        if size % 8:
            padded = np.zeros((len(part), 8 * words), np.uint8)
            padded[:, :size] = octets
            octets = padded
        result[start : start + _ROWS] = octets.view(np.uint64) @ factors
    return mixed(result)


def of_keys(keys: np.ndarray) -> np.ndarray:
    """Hashes of keys [n], integers, bytes or text: uint64 [n]."""
    if keys.dtype.kind in "iu":
        return mixed(keys.astype(np.int64).view(np.uint64))
    found = (
        hashlib.blake2b(
            key if isinstance(key, bytes) else str(key).encode(), digest_size=8
        ).digest()
        for key in keys
    )
    return np.frombuffer(b"".join(found), np.uint64)


def mixed(values: np.ndarray) -> np.ndarray:
    """Numbers in which every bit depends on all bits (splitmix64)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    values = (values ^ (values >> np.uint64(27))) * np.uint64(
        0x94D049BB133111EB
    )
    return values ^ (values >> np.uint64(31))


def uniform(hashes: np.ndarray, seed: int) -> np.ndarray:
    """A number from 0 to 1 for each hash, another one for every seed."""
    salt = mixed(np.array([seed], np.uint64))
    return (mixed(hashes ^ salt) >> np.uint64(11)) * 2.0**-53
