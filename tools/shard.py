"""Turns npz, CSV or Parquet files into shards to train on piece by piece.

    python tools/shard.py --input=mine.npz --out=shards/
    python tools/shard.py --input='tables/*.csv' --out=shards/ --kind=parquet
    python tools/shard.py --input='data/*.parquet' --out=shards/
    python tools/train.py --data=shards --path=shards/

Memory is that of one shard. The folder appears when all shards are written;
what an interrupted conversion left is removed by the next one. CSV files have
a head; their columns of numbers are the features, `label` (or --label) is the
class, and `key` or `id`, if there is one, is what queries are drawn by.
"""

import dataclasses
import sys
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold

KINDS = ("npy", "parquet", "tfrecord")


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    input: str | None = setting(
        None, ANY, "File, folder, pattern or URL to read.", flag=flags.FILE
    )
    out: str | None = setting(
        None, ANY, "Folder of the shards; must be new.", flag=flags.FOLDER
    )
    kind: str = setting(
        "npy",
        ANY,
        "Format; npy is fastest to train on.",
        flag={"choices": KINDS},
    )
    rows: int = setting(65536, COUNT, "Rows in a shard.")
    label: str | None = setting(
        None, ANY, "Column of labels in CSV; default label, labels or y."
    )


def shard(args: Args) -> None:
    """Converts and prints how much."""
    from vdsh_tf.data.shards import converting

    if not args.input or not args.out:
        raise ValueError("Give --input and --out.")
    # Nobody knows how many rows there are.
    with scaffold.progress(None, "row") as progress:
        count = converting.convert(
            args.input, args.out, args.kind, args.rows, args.label, progress
        )
    print(f"{count} rows in shards of {args.rows}, {args.kind}")
    print(args.out)


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(shard, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
