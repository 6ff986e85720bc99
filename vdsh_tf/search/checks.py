"""What every index requires of codes, ids, k, radius and encoder."""

import numpy as np

from vdsh_tf import codes as codes_lib
from vdsh_tf import config

LARGEST_ID = np.iinfo(np.int64).max
# Far beyond what is searched, and within what faiss counts in.
MOST_BITS = 1 << 20
_MOST_FINGERPRINT = 256


def is_fingerprint(value) -> bool:
    """Whether `value` can name an encoder: short text, safe to show."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= _MOST_FINGERPRINT
        and value.isprintable()
    )


def fingerprint_of(encoder) -> str | None:
    """The fingerprint of an encoder, of a model's encoder, or as given."""
    if encoder is None or is_fingerprint(encoder):
        return encoder
    encoder = getattr(encoder, "encoder", encoder)
    if not hasattr(encoder, "fingerprint"):
        raise ValueError(
            "`encoder` must be a HashEncoder, a VDSH model or a fingerprint, "
            f"printable text of up to {_MOST_FINGERPRINT} characters. "
            f"Received: {type(encoder).__name__}."
        )
    return encoder.fingerprint()


def check_owner(fingerprint: str | None, encoder, where: str) -> None:
    """Raises unless `encoder` made the codes; None is not checked."""
    asked = fingerprint_of(encoder)
    if asked is None or asked == fingerprint:
        return
    made = f"encoder {fingerprint}" if fingerprint else "an unnamed encoder"
    raise ValueError(
        f"{where} must hold codes of the encoder that makes the queries, or "
        f"distances mean nothing. Received: codes of {made}, but the encoder "
        f"is {asked}. Load the encoder that made it, or rebuild: "
        "`python tools/encode.py` and then `python tools/index.py`, both for "
        "the run of this encoder, and overwrite it."
    )


def exists(name: str) -> FileExistsError:
    """The error for a new index that would replace another."""
    return FileExistsError(
        "A new index must have a new name, or one would be lost. Received: "
        f"{name}, which exists. Name another, open this one and add to it, "
        "or replace it (overwrite=True)."
    )


def check_size(bits) -> None:
    """Raises unless `bits` is the length of a code."""
    config.require(
        config.is_count(bits) and bits <= MOST_BITS,
        "bits",
        bits,
        f"an integer from 1 to {MOST_BITS}",
        "the length of the codes",
    )


def check_codes(codes, bits: int, name: str = "codes") -> None:
    """Raises unless `codes` are packed codes whose padding is zero."""
    codes_lib.check(codes, bits, name)
    padding = -bits % 8
    if padding and (codes[:, -1] & ((1 << padding) - 1)).any():
        raise ValueError(
            f"The last {padding} bits of each row of `{name}` must be 0, as "
            f"`pack` leaves them for {bits} bits, or they count as distance. "
            "Received: others. Are these codes of another length?"
        )


def check_k(k, size: int) -> None:
    """Raises unless there are k items to find."""
    if not config.is_count(k) or k > size:
        raise ValueError(
            "`k` must be an integer from 1 to the number of items in the "
            f"index, {size}. Received: k={k!r}."
        )


def check_radius(radius) -> None:
    """Raises unless `radius` is a distance."""
    if not config.is_count(radius, 0):
        raise ValueError(
            "`radius` must be an integer >= 0, a number of bits. "
            f"Received: radius={radius!r}."
        )


def check_ids(ids, count: int | None = None) -> np.ndarray:
    """Returns ids as int64, distinct if there must be `count` of them."""
    ids = np.asarray(ids)
    if ids.size == 0:
        ids = ids.astype(np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError(
            "`ids` must be a row of integers. Received: "
            f"dtype={ids.dtype}, shape={ids.shape}."
        )
    if ids.dtype == np.uint64 and (ids > LARGEST_ID).any():
        raise ValueError(
            f"`ids` must be at most {LARGEST_ID} (int64). Received: "
            f"{ids.max()}."
        )
    if count is not None:
        if len(ids) != count:
            raise ValueError(
                "Every code needs its id. Received: "
                f"{count} codes and {len(ids)} ids."
            )
        _check_distinct(ids)
    return ids.astype(np.int64, copy=False)


def raise_duplicate(number) -> None:
    """Says that an id came twice."""
    raise ValueError(
        f"Ids must be distinct, or hits are ambiguous. Received: id {number} "
        "twice. `remove` an item before adding it again."
    )


def raise_other_code(number) -> None:
    """Says that an id to be added is there, and names something else."""
    raise ValueError(
        "An id that is in the index must have the code that is added, or the "
        f"import is of other codes. Received: id {number} with another code or "
        "in another partition. Build the index anew, or `remove` the item."
    )


def raise_unknown(ids: np.ndarray) -> None:
    """Says that ids are not in the index; nothing if there are none."""
    if len(ids):
        raise ValueError(
            f"Ids must be in the index. Received: id {ids[0]} "
            f"({len(ids)} unknown in all)."
        )


def places(known: np.ndarray, order: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Rows of ids, -1 for one that is not there.

    Args:
        known: [n] ids by row.
        order: [n] rows that sort `known`.
        ids: [m] ids to look for.
    """
    if not len(known):
        return np.full(len(ids), -1)
    found = np.searchsorted(known, ids, sorter=order)
    rows = order[np.minimum(found, len(known) - 1)]
    return np.where(known[rows] == ids, rows, -1)


def _check_distinct(ids):
    # Rising ids, the usual case, need no sorting.
    if (ids[1:] > ids[:-1]).all():
        return
    # In 16 parts: a sorted copy of all would be as large as many an index.
    parts = ids.view((np.uint8, ids.itemsize))[:, 0] & 15
    for number in range(16):
        part = ids[parts == number]
        part.sort()
        twice = part[1:] == part[:-1]
        if twice.any():
            raise_duplicate(part[1:][twice][0])
