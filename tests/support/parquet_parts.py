"""Parquet files of rows, and an exported encoder for them."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support import export_fixtures

WIDTH = 64


def encoder() -> str:
    """Path of an encoder.onnx of rows that are 64 wide."""
    return os.path.join(export_fixtures.out(), "encoder.onnx")


def rows(count: int, seed: int = 0) -> np.ndarray:
    """Raw features, [count, 64] float32."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 17, (count, WIDTH)).astype(np.float32)


def write(path: str, x: np.ndarray, **columns) -> None:
    """A part with the column `features`, and more."""
    values = pa.array(np.ascontiguousarray(x).reshape(-1))
    features = pa.FixedSizeListArray.from_arrays(values, x.shape[1])
    table = pa.table({**columns, "features": features})
    pq.write_table(table, path, row_group_size=300)


def write_all(folder: str, counts, with_ids=True) -> np.ndarray:
    """Parts part-000.parquet and so on; returns all rows."""
    os.makedirs(folder, exist_ok=True)
    found = []
    for number, count in enumerate(counts):
        x = rows(count, number)
        # Ids fall, so that a numbering by row would be noticed.
        more = {"label": np.arange(count) % 7}
        if with_ids:
            more["id"] = np.arange(count)[::-1] + 10**6 * number
        write(os.path.join(folder, f"part-{number:03}.parquet"), x, **more)
        found.append(x)
    return np.concatenate(found)


def write_codes(
    path: str, codes: np.ndarray, ids, bits: int, fingerprint="abc", **record
) -> None:
    """A file of codes as an encoding job writes it; `record` overrides."""
    about = {"bits": bits, "fingerprint": fingerprint, "rows": len(codes)}
    kind = pa.binary(codes.shape[1])
    table = pa.table(
        {
            "id": pa.array(ids),
            "code": pa.array([row.tobytes() for row in codes], kind),
        }
    )
    text = json.dumps({**about, **record})
    table = table.replace_schema_metadata({"vdsh_tf.codes": text})
    pq.write_table(table, path, row_group_size=300)


def read_all(folder: str) -> pa.Table:
    """The codes of all parts in order."""
    paths = sorted(n for n in os.listdir(folder) if n.endswith(".parquet"))
    tables = [pq.read_table(os.path.join(folder, name)) for name in paths]
    return pa.concat_tables([t.replace_schema_metadata() for t in tables])


def codes(table: pa.Table) -> np.ndarray:
    """[n, bytes] uint8 of the column `code`."""
    data = b"".join(table["code"].to_pylist())
    return np.frombuffer(data, np.uint8).reshape(len(table), -1)
