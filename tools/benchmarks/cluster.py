"""Measures encoding on a Ray cluster of this machine, against no cluster.

    python tools/benchmarks/cluster.py          # 2,000,000 rows of 128 numbers
    python tools/benchmarks/cluster.py --rows=100000 --parts=10

The same Parquet files by the same encoder (random weights): in this process
and on a cluster of one node per core, in turns; then on such a cluster, one
node of which is killed in the middle. Every file of codes must be equal to the
first local one. Prints rows per second, of the shortest run of each, and
writes JSON. Six minutes and 2 GB of disk for 16 layers x 512 on two cores.
"""

import dataclasses
import functools
import itertools
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold

_MEMORY = 200_000_000


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    rows: int = setting(2_000_000, COUNT, "Rows to encode.")
    parts: int = setting(40, COUNT, "Files they are in.")
    dim: int = setting(128, COUNT, "Numbers in a row.")
    layers: int = setting(16, COUNT, "Of the encoder.")
    width: int = setting(512, COUNT, "Of a layer.")
    turns: int = setting(2, COUNT, "Runs with and without the cluster.")
    nodes: int = setting(2, COUNT, "Nodes of the cluster, a core each.")
    work: str | None = setting(
        None, ANY, "Folder for the files; default a temporary one."
    )
    out: str | None = setting(None, ANY, "JSON file.", flag=flags.FILE)


def write_rows(args: Args, folder: str) -> None:
    """Writes random rows with ids as Parquet files."""
    import numpy as np
    import pyarrow
    import pyarrow.parquet

    os.makedirs(folder, exist_ok=True)
    ends = np.linspace(0, args.rows, args.parts + 1).astype(int)
    for number, (start, end) in enumerate(itertools.pairwise(ends)):
        x = np.random.default_rng(number).random(
            (end - start, args.dim), np.float32
        )
        features = pyarrow.FixedSizeListArray.from_arrays(
            pyarrow.array(x.reshape(-1)), args.dim
        )
        table = pyarrow.table(
            {"id": np.arange(start, end), "features": features}
        )
        path = os.path.join(folder, f"part-{number:04}.parquet")
        pyarrow.parquet.write_table(table, path, compression="none")


def on_cluster(args: Args, encode, kill: bool) -> tuple[object, int]:
    """The report of a run on a new cluster, and parts done at the kill."""
    from ray import cluster_utils

    from vdsh_tf.encoding import cluster

    about: dict[str, Any] = {"num_cpus": 1, "object_store_memory": _MEMORY}
    nodes = cluster_utils.Cluster(initialize_head=True, head_node_args=about)
    others = [nodes.add_node(**about) for _ in range(args.nodes - 1)]
    at_kill: list[int] = []

    def watch(done):
        if kill and not at_kill and done >= args.rows // 3:
            nodes.remove_node(others[0], allow_graceful=False)
            at_kill.append(done)

    try:
        return encode(cluster.Cluster(nodes.address), watch), sum(at_kill)
    finally:
        nodes.shutdown()


def check_equal(first: str, second: str) -> int:
    """Number of files; an error if one differs."""
    names = sorted(n for n in os.listdir(first) if n.endswith(".parquet"))
    others = sorted(n for n in os.listdir(second) if n.endswith(".parquet"))
    if names != others:
        raise RuntimeError(f"Files must be the same: {first}, {second}.")
    for name in names:
        with (
            open(os.path.join(first, name), "rb") as a,
            open(os.path.join(second, name), "rb") as b,
        ):
            if a.read() != b.read():
                raise RuntimeError(f"{name} must be the same in {second}.")
    return len(names)


def measure(args: Args, work: str) -> dict:
    """All runs; the shortest of several turns counts."""
    from vdsh_tf.encoding import jobs
    from vdsh_tf.encoding import runs
    from vdsh_tf.research.capacity import measures
    from vdsh_tf.research.capacity.model import Network

    data = os.path.join(work, "data")
    write_rows(args, data)
    network = Network(args.dim, args.width, args.layers)
    content = measures.encoder_bytes(network)
    result: dict = {"rows": args.rows, "parts": args.parts}

    def encode(name, engine=runs.here, watch=None):
        out = os.path.join(work, name)
        job, parts = jobs.plan(f"{data}/*.parquet", out, content)
        report = runs.run(job, parts, out, engine, watch)
        if report.failures or report.rows != args.rows:
            raise RuntimeError(f"Every row must have its code: {report}")
        return report

    def record(name, report, at_kill=0):
        check_equal(os.path.join(work, "local-0"), os.path.join(work, name))
        kept = result.setdefault(name.partition("-")[0], {"seconds": []})
        kept["seconds"].append(report.seconds)
        kept["rows_per_second"] = args.rows / min(kept["seconds"])
        kept["rows_at_kill"] = at_kill

    for turn in range(args.turns):
        name = f"local-{turn}"
        record(name, encode(name))
        name = f"cluster-{turn}"
        run = functools.partial(encode, name)
        record(name, *on_cluster(args, run, kill=False))
    run = functools.partial(encode, "killed-0")
    record("killed-0", *on_cluster(args, run, kill=True))
    times = {n: min(result[n]["seconds"]) for n in ("local", "cluster")}
    result["overhead"] = times["cluster"] / times["local"] - 1
    return result


def benchmark(args: Args) -> None:
    """Measures, prints what came out and writes JSON."""
    from vdsh_tf import files

    if args.work:
        result = measure(args, args.work)
    else:
        with tempfile.TemporaryDirectory() as work:
            result = measure(args, work)
    if args.out:
        files.write_json(args.out, result)
    for name in ("local", "cluster", "killed"):
        run = result[name]
        seconds = ", ".join(f"{s:.1f}" for s in run["seconds"])
        print(f"{name:8} {seconds} s; {run['rows_per_second']:.0f} rows/s")
    print(f"a node was killed after {result['killed']['rows_at_kill']} rows")
    print(f"overhead of the cluster {result['overhead']:+.1%}; codes equal")


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(benchmark, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
