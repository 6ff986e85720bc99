"""What is to be encoded: parts, and how each of them is read.

Everything that the footers of the files tell is checked before work begins.
"""

import dataclasses
import glob
import os
from typing import Any
from typing import NamedTuple

from vdsh_tf.encoding.onnx_encoder import OnnxEncoder

CODE = "code"
_WILD = "*?["


class Part(NamedTuple):
    """One input file and its output.

    Attributes:
        source, target: paths, seen by every machine that takes part.
        rows: number of rows, as the input's footer says.
        first: number of rows in the parts before it.
    """

    source: str
    target: str
    rows: int
    first: int


@dataclasses.dataclass(frozen=True)
class Job:
    """How every part is encoded.

    Attributes:
        encoder: bytes of `encoder.onnx`.
        fingerprint, bits, width: of the encoder.
        features: name of the column of features.
        id: name of the id column; None numbers the rows of all parts.
        columns: names of more columns to keep.
        batch_size: rows in memory at a time.
    """

    encoder: bytes = dataclasses.field(repr=False)
    fingerprint: str
    bits: int
    width: int
    features: str
    id: str | None
    columns: tuple[str, ...]
    batch_size: int


def import_parquet() -> Any:
    """pyarrow.parquet, or an error that says how to get it."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet files need pyarrow, which is not installed. Run "
            "`pip install 'vdsh_tf[cluster]'`, or `pip install pyarrow`."
        ) from error
    return pyarrow.parquet


def find(pattern: str, out: str) -> list[tuple[str, str]]:
    """Input files of a pattern in order, each with its place in `out`."""
    sources = sorted(
        os.path.abspath(path)
        for path in glob.glob(pattern, recursive=True)
        if os.path.isfile(path)
    )
    if not sources:
        raise FileNotFoundError(
            "There must be at least one Parquet file to encode. Received: "
            f"{pattern}, which names none. Quote a pattern, so that the shell "
            "leaves it alone."
        )
    fixed = pattern
    for sign in _WILD:
        fixed = fixed.partition(sign)[0]
    root = os.path.dirname(os.path.abspath(fixed + "x"))
    if fixed == pattern:
        root = os.path.dirname(os.path.abspath(pattern))
    out = os.path.abspath(out)
    pairs = [(s, os.path.join(out, os.path.relpath(s, root))) for s in sources]
    _check_folder(out, {target for _, target in pairs}, set(sources))
    return pairs


def plan(
    pattern: str,
    out: str,
    encoder: bytes,
    features: str | None = None,
    id: str | None = None,
    columns: tuple[str, ...] = (),
    batch_size: int = 1024,
) -> tuple[Job, list[Part]]:
    """Reads all footers; raises before anything is written.

    Args:
        pattern: of Parquet files, such as `data/*.parquet`.
        out: folder of the codes, one file per input file.
        encoder: bytes of `encoder.onnx`.
        features: column of features; default the only list of numbers.
        id: column to name rows by; default `id` if there is one, and else
            rows are numbered in the order of the files' names.
        columns: more columns to keep.
        batch_size: rows in memory at a time.
    """
    made = OnnxEncoder(encoder, threads=1)
    pairs = find(pattern, out)
    parts: list[Part] = []
    first_schema = None
    count = 0
    for source, target in pairs:
        schema, rows = _footer(source)
        if first_schema is None:
            first_schema = schema
            features = features or _features(schema, source)
            if id is None and "id" in schema.names:
                id = "id"
        _check_schema(schema, source, features, made.width, id, columns)
        for name in (*([id] if id else []), *columns):
            _check_same(schema, first_schema, name, source)
        parts.append(Part(source, target, rows, count))
        count += rows
    if CODE in (id, *columns) or len({id, *columns}) != 1 + len(columns):
        raise ValueError(
            f"Columns to keep must be distinct and none called {CODE!r}, "
            f"which the codes are. Received: id={id!r}, columns={columns}."
        )
    job = Job(
        encoder,
        made.fingerprint,
        made.bits,
        made.width,
        features or "",
        id,
        tuple(columns),
        batch_size,
    )
    return job, parts


def _footer(source):
    parquet = import_parquet()
    try:
        with parquet.ParquetFile(source) as file:
            return file.schema_arrow, file.metadata.num_rows
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{source} must be a complete Parquet file, but it is empty, "
            "damaged or of another kind. Write it again, or leave it out. "
            f"Cause: {type(error).__name__}: {error}"
        ) from error


def _features(schema, source):
    import pyarrow

    lists = [
        field.name
        for field in schema
        if pyarrow.types.is_fixed_size_list(field.type)
        or pyarrow.types.is_list(field.type)
    ]
    if len(lists) != 1:
        raise ValueError(
            "There must be one column of lists of numbers, the features, or "
            f"it must be named (`features`). Received: {lists} among "
            f"{schema.names} in {source}."
        )
    return lists[0]


def _check_schema(schema, source, features, width, id, columns):
    import pyarrow

    for name in (features, *([id] if id else []), *columns):
        if name not in schema.names:
            raise ValueError(
                f"Every part must have the column {name!r}. Received: "
                f"{source} with {schema.names}."
            )
    kind = schema.field(features).type
    fixed = pyarrow.types.is_fixed_size_list(kind)
    if not fixed and not pyarrow.types.is_list(kind):
        raise ValueError(
            f"Column {features!r} must be a list of numbers in every row. "
            f"Received: {kind} in {source}."
        )
    value = kind.value_type
    if not (
        pyarrow.types.is_floating(value) or pyarrow.types.is_integer(value)
    ):
        raise ValueError(
            f"Column {features!r} must hold numbers. Received: {kind} in "
            f"{source}."
        )
    if fixed and kind.list_size != width:
        raise ValueError(
            f"Features must be {width} wide, as the encoder was trained. "
            f"Received: {kind.list_size} in column {features!r} of {source}."
        )


def _check_same(schema, first, name, source):
    want, got = first.field(name).type, schema.field(name).type
    if want != got:
        raise ValueError(
            f"Column {name!r} must be of one type in all parts, or the codes "
            f"cannot be read together. Received: {got} in {source}, and "
            f"{want} in the first part."
        )


def _check_folder(out, targets, sources):
    """Refuses outputs over inputs, and codes that no input has made."""
    if targets & sources:
        raise ValueError(
            "Codes must not overwrite what they are made of. Received: "
            f"{min(targets & sources)} as input and output. Name another "
            "folder for the codes."
        )
    pattern = os.path.join(glob.escape(out), "**", "*.parquet")
    found = set(glob.glob(pattern, recursive=True)) - targets
    if found:
        raise ValueError(
            "The folder of the codes must hold no other Parquet files, or "
            f"they would be read as codes of this input. Received: "
            f"{min(found)} ({len(found)} in all). Remove them, or name "
            "another folder."
        )
