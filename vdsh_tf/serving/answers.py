"""What a server may answer: the one place where answers are checked.

Transports turn JSON or protocol buffers into arrays; whether these are what
was asked for is decided here, from what the served signatures say and what
the caller knows.
"""

import dataclasses
import math
import re

import numpy as np

from vdsh_tf.serving.errors import ServingError
from vdsh_tf.serving.errors import Signature
from vdsh_tf.serving.errors import quote

# Numbers in an answer: a request asks for no more rows than fit. It bounds
# memory, however wide a server says that its rows are; a hostile message takes
# 80 times its size where protocol buffers unpack it.
MOST_NUMBERS = 1 << 18
CODES, EMBEDDING, TEXT = "codes", "embedding", "text"
_DTYPES = {CODES: "uint8", EMBEDDING: "float32", TEXT: "string"}
MOST_DIMS = 8
_NAME = re.compile(r"[!-~]{1,128}")


@dataclasses.dataclass(frozen=True)
class Form:
    """What the answer to a request must be.

    Attributes:
        output: its name.
        kind: CODES, EMBEDDING or TEXT.
        rows: number of rows.
        width: numbers in a row; None for one string a row.
        bits: length of the codes, if known: what follows it is padding.
        row_numbers: numbers in a row of all outputs of the signature.
    """

    output: str
    kind: str
    rows: int
    width: int | None = None
    bits: int | None = None
    row_numbers: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array that is to come."""
        return (self.rows,) if self.width is None else (self.rows, self.width)

    @property
    def numbers(self) -> int:
        """In the whole answer, of all outputs, at most."""
        return self.rows * self.row_numbers


def known_shape(sizes) -> tuple[int, ...] | None:
    """A shape as a server states it; None where it cannot be one."""
    if len(sizes) > MOST_DIMS or any(abs(size) >= 1 << 31 for size in sizes):
        return None
    return tuple(sizes)


def check_form(shape: tuple[int, ...] | None, dtype: str, form: Form) -> None:
    """Raises unless an array is of the shape and type that was asked for."""
    want = _DTYPES[form.kind]
    if shape == form.shape and dtype == want:
        return
    if shape and shape[1:] == form.shape[1:] and dtype == want:
        raise ServingError(
            f"The server must respond with a row for each of {form.rows} rows "
            f"sent. Received: {shape[0]}."
        )
    raise ServingError(
        f"The server must respond with {form.output!r} as {want} "
        f"{list(form.shape)}, as its signatures say. Received: {dtype} "
        f"of shape {shape}. Is it an export of vdsh_tf that it serves?"
    )


def check_values(array: np.ndarray, form: Form) -> np.ndarray:
    """Returns an answer of the right form, or raises: its values are wrong."""
    if form.kind == EMBEDDING and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise ServingError(
            "The server must respond with finite numbers. Received: NaN or "
            f"infinity in {form.output!r} of row {row}. Were its weights "
            "damaged? Export the model again."
        )
    padding = -form.bits % 8 if form.kind == CODES and form.bits else 0
    if padding and (array[:, -1] & ((1 << padding) - 1)).any():
        raise ServingError(
            f"The last {padding} bits of each code must be 0, as codes have "
            f"{form.bits} bits, or they would count as distance. Received: "
            "others. Is it an export of vdsh_tf that the server has?"
        )
    if form.kind == TEXT:
        for text in array:
            if not _NAME.fullmatch(text):
                raise ServingError(
                    f"The server must respond with a short word as "
                    f"{form.output!r}. Received: {quote(text)}."
                )
    return array


def find(signatures: dict[str, Signature], name: str) -> Signature:
    """The signature of a name, or an error that lists those that are there."""
    if name in signatures:
        return signatures[name]
    raise ServingError(
        f"The served model must have the signature {name!r}; it has "
        f"{quote(', '.join(sorted(signatures)))}. Serve a SavedModel that "
        "`vdsh_tf.export` wrote"
        + (", of a data set of pictures." if name == "pixels" else ".")
    )


def row_shape(shapes: dict, name: str, dims: int) -> tuple[int, ...]:
    """Sizes behind the batch of an input or output, all known, or raises.

    Args:
        shapes: of the inputs or outputs of a signature.
        name: of one of them.
        dims: number of sizes that there must be.
    """
    shape = shapes.get(name)
    if shape is not None and len(shape) == dims + 1 and min(shape[1:]) >= 1:
        return shape[1:]
    raise ServingError(
        f"A signature of the served model must have {name!r} with {dims} "
        f"known sizes behind the batch. Received: {quote(dict(shapes))}. "
        "Serve a SavedModel that `vdsh_tf.export` wrote."
    )


def code_size(
    signatures: dict[str, Signature], bits: int | None
) -> tuple[int, int | None]:
    """Bytes and bits of a code; bits are None where nobody says.

    Args:
        signatures: of the served model.
        bits: what the caller knows.
    """
    default, embed = (
        signatures.get(name, Signature({}, {}))
        for name in ("serving_default", "embed")
    )
    known = bits
    if "embedding" in embed.outputs:
        (served,) = row_shape(embed.outputs, "embedding", 1)
        known = known or served
        _agree(served, known, "bits")
    width = None if known is None else (known + 7) // 8
    if "codes" in default.outputs:
        (served,) = row_shape(default.outputs, "codes", 1)
        width = width or served
        _agree(served, width, "bytes")
    if width is None:
        raise ServingError(
            "The served model must say how long its codes are, or those of "
            "another length could not be told. Received: signatures "
            f"{quote(', '.join(sorted(signatures)))}. Serve a SavedModel that "
            "`vdsh_tf.export` wrote, or name `bits`."
        )
    return width, known


def row_numbers(signature: Signature, code_bytes: int) -> int:
    """Numbers in a row of all outputs; REST sends all, asked for or not."""
    found = code_bytes
    for name, shape in signature.outputs.items():
        if not shape or min(shape[1:], default=1) < 1:
            shape = (-1, *row_shape(signature.outputs, name, 1))  # raises
        found += math.prod(shape[1:])
    if found > MOST_NUMBERS:
        raise ServingError(
            f"A row of the served model must have at most {MOST_NUMBERS} "
            f"numbers, or an answer would fill the memory. Received: {found}. "
            "Is it an export of vdsh_tf?"
        )
    return found


def _agree(served, wanted, unit):
    if served != wanted:
        raise ServingError(
            f"The served model must have codes of {wanted} {unit}, or they "
            f"cannot be compared with others. Received: {served} {unit}. "
            "Serve the model that made the others, or name other `bits`."
        )
