"""One part: a Parquet file of rows -> a Parquet file of codes, atomically.

A record in the output's own metadata says what it was made of: SHA-256 of the
input, fingerprint of the encoder, and what was kept. A part whose record is
the wanted one is not made again.
"""

import hashlib
import json
import os
import time
from typing import Any
from typing import NamedTuple

import numpy as np

from vdsh_tf import files
from vdsh_tf.encoding import jobs
from vdsh_tf.encoding.jobs import CODE
from vdsh_tf.encoding.jobs import Job
from vdsh_tf.encoding.jobs import Part

RECORD = b"vdsh_tf.codes"


class Outcome(NamedTuple):
    """What became of a part.

    Attributes:
        source: its input.
        rows: number of codes in the output, 0 if it failed.
        made: whether it was encoded now, and not before.
        seconds: how long it took.
        error: why it failed, or "".
    """

    source: str
    rows: int
    made: bool
    seconds: float
    error: str


def process(job: Job, part: Part, encoder) -> Outcome:
    """Encodes a part unless that is done; errors become part of the outcome.

    Args:
        job, part: what to do.
        encoder: an `OnnxEncoder`.
    """
    start = time.perf_counter()
    try:
        made, error = _process(job, part, encoder), ""
    except Exception as problem:
        made = False
        error = f"{part.source}: {type(problem).__name__}: {problem}"
    seconds = time.perf_counter() - start
    return Outcome(part.source, 0 if error else part.rows, made, seconds, error)


def read_record(path: str) -> dict | None:
    """What a file of codes says it was made of; None if it says nothing."""
    parquet = jobs.import_parquet()
    try:
        with parquet.ParquetFile(path) as file:
            text = (file.schema_arrow.metadata or {}).get(RECORD)
            record = None if text is None else json.loads(text)
            rows = file.metadata.num_rows
    except (ValueError, OSError):
        return None
    if not isinstance(record, dict) or record.get("rows") != rows:
        return None
    return record


def _process(job, part, encoder):
    """Whether the part had to be encoded."""
    record = _record(job, part)
    if read_record(part.target) == record:
        return False
    os.makedirs(os.path.dirname(part.target), exist_ok=True)
    with files.replacing(part.target) as partial:
        rows = _encode(job, part, encoder, partial, record)
        if rows != part.rows:
            raise ValueError(
                f"Every row must have one code. Received: {rows} rows, where "
                f"the footer says {part.rows}. Did the file change?"
            )
        with open(partial, "rb") as f:
            os.fsync(f.fileno())
        if _digest(part.source) != record["sha256"]:
            raise ValueError("The file must not change while it is encoded.")
    return True


def _record(job, part):
    return {
        "format": 1,
        "sha256": _digest(part.source),
        "rows": part.rows,
        "fingerprint": job.fingerprint,
        "bits": job.bits,
        "features": job.features,
        "id": job.id,
        "first_id": None if job.id else part.first,
        "columns": list(job.columns),
    }


def _digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _encode(job, part, encoder, path, record):
    """Writes the codes of all batches; returns the number of rows."""
    import pyarrow

    parquet = jobs.import_parquet()
    done = 0
    with parquet.ParquetFile(part.source) as source:
        schema = _schema(job, source.schema_arrow, record)
        names = [job.features, *([job.id] if job.id else []), *job.columns]
        with parquet.ParquetWriter(path, schema) as writer:
            for batch in source.iter_batches(job.batch_size, columns=names):
                if not batch.num_rows:
                    continue
                codes = _codes(job, batch.column(job.features), encoder, done)
                arrays = [_ids(job, part, batch, done), _binary(codes)]
                arrays += [batch.column(name) for name in job.columns]
                writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
                done += batch.num_rows
    return done


def _schema(job, source, record) -> Any:
    import pyarrow

    id_type = source.field(job.id).type if job.id else pyarrow.int64()
    fields = [
        pyarrow.field("id", id_type),
        pyarrow.field(CODE, pyarrow.binary((job.bits + 7) // 8)),
        *(source.field(name).remove_metadata() for name in job.columns),
    ]
    return pyarrow.schema(fields, {RECORD: json.dumps(record)})


def _codes(job, column, encoder, start):
    try:
        return encoder(_rows(column, job.width))
    except ValueError as error:
        raise ValueError(
            f"Rows {start} to {start + len(column) - 1} cannot be encoded "
            f"(row numbers below count from {start}). {error}"
        ) from error


def _rows(column, width):
    """[n, width] values of a column of lists."""
    if column.null_count:
        raise ValueError("Features must not be missing (null) in any row.")
    values = column.flatten()
    if values.null_count:
        raise ValueError("Features must not hold missing values (null).")
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    other = np.flatnonzero(lengths != width)
    if len(other):
        raise ValueError(
            f"Features must be {width} wide in every row. Received: "
            f"{lengths[other[0]]} in row {other[0]}."
        )
    return values.to_numpy(zero_copy_only=False).reshape(-1, width)


def _ids(job, part, batch, done):
    import pyarrow

    if job.id:
        return batch.column(job.id)
    first = part.first + done
    return pyarrow.array(np.arange(first, first + batch.num_rows))


def _binary(codes):
    import pyarrow

    codes = np.ascontiguousarray(codes)
    return pyarrow.Array.from_buffers(
        pyarrow.binary(codes.shape[1]),
        len(codes),
        [None, pyarrow.py_buffer(codes)],
    )
