"""CodeParts: the Parquet files of codes that a job wrote, for an index.

Each file says in its own metadata which encoder made it. Files of several
encoders are refused before anything is read of them.
"""

import glob
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from vdsh_tf import config
from vdsh_tf.encoding import jobs
from vdsh_tf.encoding import parts as parts_lib
from vdsh_tf.search import checks


class CodeParts:
    """Codes and ids of all files of a pattern, in the order of their names.

    Args:
        pattern: such as `codes/*.parquet`.

    Attributes:
        paths: the files.
        bits, fingerprint: of the encoder that made them.
    """

    def __init__(self, pattern: str):
        self.paths = sorted(
            path
            for path in glob.glob(pattern, recursive=True)
            if os.path.isfile(path)
        )
        if not self.paths:
            raise FileNotFoundError(
                "There must be at least one Parquet file of codes. Received: "
                f"{pattern}, which names none. Make them with `python "
                "tools/encode.py`, and quote the pattern, so that the shell "
                "leaves it alone."
            )
        self.bits = 0
        self.fingerprint = ""
        self._count = 0
        for path in self.paths:
            record = _record(path)
            maker = record["bits"], record["fingerprint"]
            if not self.bits:
                self.bits, self.fingerprint = maker
            if maker != (self.bits, self.fingerprint):
                raise ValueError(
                    "All files must hold codes of one encoder, or distances "
                    f"mean nothing. Received: {path} of encoder {maker[1]}, "
                    f"{self.paths[0]} of encoder {self.fingerprint}. Encode "
                    "again, or name the files of one of them."
                )
            _check_columns(path, self.bits)
            self._count += record["rows"]

    def __len__(self) -> int:
        return self._count

    def pieces(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Codes [n, bytes] uint8 and ids [n] int64, at most `rows` of them."""
        width = (self.bits + 7) // 8
        for path in self.paths:
            for batch in _batches(path, rows):
                ids, codes = batch.column(0), batch.column(1)
                if ids.null_count or codes.null_count:
                    raise ValueError(
                        "Every row must have an id and a code. Received: "
                        f"missing ones (null) in {path}. Encode it again."
                    )
                _, data = codes.buffers()
                # A batch may be a window of a larger buffer.
                values = np.frombuffer(
                    data, np.uint8, len(codes) * width, codes.offset * width
                )
                yield (
                    values.reshape(-1, width),
                    checks.check_ids(ids.to_numpy(zero_copy_only=False)),
                )


def _record(path) -> dict[str, Any]:
    """What a file says of itself; an error if it is not of a job."""
    record = parts_lib.read_record(path)
    if (
        record is None
        or not config.is_count(record.get("bits"))
        or not checks.is_fingerprint(record.get("fingerprint"))
    ):
        raise ValueError(
            f"{path} must be a complete file of codes, as `python "
            "tools/encode.py --input='data/*.parquet'` writes it, whose "
            "metadata name the encoder. It is damaged or of another kind. "
            "Encode again, or leave it out."
        )
    checks.check_size(record["bits"])
    return record


def _check_columns(path, bits):
    import pyarrow

    with jobs.import_parquet().ParquetFile(path) as file:
        schema = file.schema_arrow
    names = ("id", jobs.CODE)
    found = [schema.field(n).type if n in schema.names else None for n in names]
    if found[1] != pyarrow.binary((bits + 7) // 8):
        raise ValueError(
            f"Column {jobs.CODE!r} must hold {(bits + 7) // 8} bytes per row, "
            f"for {bits} bits. Received: {found[1]} in {path}. Encode again."
        )
    if found[0] is None or not pyarrow.types.is_integer(found[0]):
        raise ValueError(
            "Column 'id' must hold integers, which an index names items by. "
            f"Received: {found[0]} in {path}. Encode with a column of integers "
            "as id, and keep the other one as a further column."
        )


def _batches(path, rows):
    try:
        with jobs.import_parquet().ParquetFile(path) as file:
            yield from file.iter_batches(rows, columns=["id", jobs.CODE])
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{path} must be a complete Parquet file, but it is damaged. "
            f"Encode it again. Cause: {type(error).__name__}: {error}"
        ) from error
