"""Do all runtimes give the same bits? The rule, the rows and the check.

float32 sums differ in their last digits between runtimes, and even between
batch sizes of one runtime, so a bit whose response is almost zero may come
out either way. The rule is: **a bit must be the float64 one wherever the
float64 response of the code layer is farther than 1e-5 from zero**; the bits
nearer than that are counted and reported.

The response is what the code layer computes before its ReLU. Its output, the
embedding, would not do: it is exactly zero for every bit that is off, so a
rule that asks for |embedding| > 1e-5 never looks at those, and a runtime that
turned off bits on would pass.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vdsh_tf import codes as codes_lib
from vdsh_tf import network

MARGIN = 1e-5
BATCH_SIZES = (1, 2, 7, 1024)
# Rows that a small batch size is tried on; 1024 sees all of them.
_MOST_BATCHES = 60


class ParityError(ValueError):
    """A runtime gives other codes than the network it was made from."""


class Report(NamedTuple):
    """Bits of one runtime at one batch size against float64.

    Attributes:
        runtime: its name.
        batch_size: rows in a call.
        rows: rows compared.
        bits: bits compared, `rows * K`.
        within: bits nearer to zero than the margin, which may differ.
        differ_within: those among them that do.
        differ_beyond: bits that differ and must not.
    """

    runtime: str
    batch_size: int
    rows: int
    bits: int
    within: int
    differ_within: int
    differ_beyond: int


def responses(
    kernels: list[np.ndarray],
    x: np.ndarray,
    mean: np.ndarray | None = None,
    scale: np.ndarray | None = None,
) -> np.ndarray:
    """Float64 forward pass: the code layer's input to its ReLU, [n, K].

    Args:
        kernels: of the layers, [D_in, D_out] each.
        x: [n, d], raw rows.
        mean: [d] float32 that is subtracted from them first, or None.
        scale: [d] float32 that they are multiplied with next, or None.
    """
    x = np.asarray(x, np.float32)
    # Rounded as every runtime rounds them: their outcome is the input.
    if mean is not None:
        x = x - mean
    if scale is not None:
        x = x * scale
    z = np.where(np.abs(x) < network.TINY, 0.0, x.astype(np.float64))
    norm = np.linalg.norm(z, axis=1, keepdims=True)
    z = np.divide(z, norm, out=np.zeros_like(z), where=norm > 0)
    for kernel in kernels[:-1]:
        z = np.maximum(z @ kernel.astype(np.float64), 0)
    return z @ kernels[-1].astype(np.float64)


def compare(
    want: np.ndarray, codes: np.ndarray, runtime: str, batch_size: int
) -> Report:
    """Compares packed codes with float64 responses, [n, K]."""
    codes_lib.check(codes, want.shape[1])
    if len(codes) != len(want):
        raise ParityError(
            f"{runtime} must give a code for each of {len(want)} rows. "
            f"Received: {len(codes)}."
        )
    differ = codes_lib.unpack(codes, want.shape[1]) != (want > 0)
    within = np.abs(want) <= MARGIN
    return Report(
        runtime,
        batch_size,
        len(want),
        want.size,
        int(within.sum()),
        int((differ & within).sum()),
        int((differ & ~within).sum()),
    )


def check(
    kernels: list[np.ndarray],
    rows: np.ndarray,
    runtimes: dict[str, Callable[[np.ndarray], np.ndarray]],
    batch_sizes: tuple[int, ...] = BATCH_SIZES,
    mean: np.ndarray | None = None,
    scale: np.ndarray | None = None,
) -> list[Report]:
    """Encodes rows by every runtime at every batch size.

    Args:
        kernels: of the network.
        rows: [n, d] float32, in an order that puts all kinds first.
        runtimes: by name, functions from rows to packed codes.
        batch_sizes: rows in a call.
        mean, scale: of the network's normalisation, or None.
    """
    want = responses(kernels, rows, mean, scale)
    reports = []
    for name, encode in runtimes.items():
        for size in batch_sizes:
            count = min(len(rows), size * _MOST_BATCHES)
            got = encode_batches(encode, rows[:count], size)
            reports.append(compare(want[:count], got, name, size))
    return reports


def require(reports: list[Report]) -> None:
    """Raises if a bit beyond the margin differs."""
    bad = [report for report in reports if report.differ_beyond]
    if bad:
        raise ParityError(
            f"Every bit farther than {MARGIN:g} from zero must be the same in "
            "all runtimes, or stored codes cannot be searched with served "
            "ones. Nothing was written. Received:\n"
            f"{table(bad)}\nReport it with the versions of tensorflow, "
            "tf2onnx and onnxruntime; `check=False` writes the files all the "
            "same."
        )


def encode_batches(encode, rows, batch_size: int) -> np.ndarray:
    """Codes of all rows, `batch_size` rows per call."""
    starts = range(0, len(rows), batch_size)
    return np.concatenate([encode(rows[s : s + batch_size]) for s in starts])


def consistent(outputs: dict[str, np.ndarray]) -> bool:
    """Whether codes, bits and embedding of one call tell the same."""
    on = outputs["embedding"] > 0
    return np.array_equal(outputs["bits"], np.where(on, 1, -1)) and (
        np.array_equal(outputs["codes"], codes_lib.pack(on))
    )


def hostile_rows(rows: np.ndarray) -> np.ndarray:
    """The rows again at the ends of float32: [n, d] -> [7 n, d].

    Scaled up and down; with a largest entry of 3e38, of 2e-38 (many entries
    are then denormal) and of 1e-41 (all are); one entry alone; and zeros. The
    kinds alternate, so that any first few rows hold them all.
    """
    rows = np.asarray(rows, np.float32)
    unit = rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-30)
    first = np.where(
        np.arange(rows.shape[1]) == np.abs(rows).argmax(axis=1)[:, None],
        rows,
        0,
    )
    kinds = [
        rows * np.float32(1e-3),
        rows * np.float32(7e4),
        unit * np.float32(3e38),
        unit * np.float32(2e-38),
        unit * np.float32(1e-41),
        first,
        np.zeros_like(rows),
    ]
    return np.stack(kinds, axis=1).reshape(-1, rows.shape[1])


def table(reports: list[Report]) -> str:
    """Reports as lines to read."""
    lines = [
        f"  {'runtime':22} {'batch':>6} {'rows':>8} {'bits':>10} "
        f"{'|s|<=1e-5':>10} {'differ':>7} {'beyond':>7}"
    ]
    for r in reports:
        lines.append(
            f"  {r.runtime:22} {r.batch_size:>6} {r.rows:>8} {r.bits:>10} "
            f"{r.within:>10} {r.differ_within:>7} {r.differ_beyond:>7}"
        )
    return "\n".join(lines)
