"""Binary codes in NumPy: threshold, pack, unpack, check."""

import numpy as np


def binarize(embedding: np.ndarray) -> np.ndarray:
    """Bits of an embedding: [n, K] float -> [n, K] bool.

    A bit is `embedding > 0`, never `sign`: the code layer is a ReLU and gives
    many exact zeros.
    """
    return np.asarray(embedding) > 0


def pack(bits: np.ndarray) -> np.ndarray:
    """Packs bits, first bit first: [n, K] bool -> [n, ceil(K/8)] uint8."""
    bits = np.asarray(bits)
    if bits.ndim != 2:
        raise ValueError(
            "`bits` must have one row per item, [n, K]. "
            f"Received: shape={bits.shape}."
        )
    return np.packbits(bits, axis=1)


def unpack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Inverse of `pack`: [n, ceil(bits/8)] uint8 -> [n, bits] bool."""
    check(codes, bits)
    return np.unpackbits(codes, axis=1, count=bits).astype(bool)


def as_words(codes: np.ndarray) -> np.ndarray:
    """Packed codes, padded by zeros, as words: [n, words] uint64."""
    padded = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 8)))
    return np.ascontiguousarray(padded).view(np.uint64)


def check(codes: np.ndarray, bits: int | None = None, name="codes") -> None:
    """Raises unless `codes` are packed codes, of `bits` bits if given."""
    if not isinstance(codes, np.ndarray) or codes.dtype != np.uint8:
        raise ValueError(
            f"`{name}` must be a uint8 array of packed codes, as `pack` and "
            "`VDSH.encode` give. Received: "
            f"{getattr(codes, 'dtype', type(codes).__name__)}."
        )
    if codes.ndim != 2:
        raise ValueError(
            f"`{name}` must have one row per item, [n, ceil(K/8)]. "
            f"Received: shape={codes.shape}."
        )
    if bits is not None and codes.shape[1] != (bits + 7) // 8:
        raise ValueError(
            f"`{name}` of {bits} bits must be {(bits + 7) // 8} bytes wide. "
            f"Received: shape={codes.shape}."
        )
