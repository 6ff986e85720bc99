"""Measures search: against faiss itself, the kinds, one query, memory.

    python tools/benchmarks/search.py           # the newest run, on images
    python tools/benchmarks/search.py --rows=100000 --repeats=3
    python tools/benchmarks/search.py --out=search.json

Real codes throughout: the run's database, and --rows images made from it by
moving each by up to two pixels. Prints a table and writes JSON. Ten minutes
for MNIST with 48 layers and a million rows, on two cores.
"""

import dataclasses
import sys
import tempfile
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import run_flags
from vdsh_tf.tools import scaffold


@dataclasses.dataclass(frozen=True)
class Args(run_flags.RunFlags):
    """Flags of this tool."""

    rows: int = setting(1_000_000, COUNT, "Size of the large set.")
    repeats: int = setting(7, COUNT, "Turns of each measurement.")
    k: int = setting(10, COUNT, "Neighbours of a query.")
    hnsw_rows: int = setting(69_000, COUNT, "No graph for larger sets.")
    out: str | None = setting(
        None, ANY, "JSON file; default RUN_DIR/search.json.", flag=flags.FILE
    )


def compare(args: Args, name, codes, queries, bits, result) -> None:
    """The kinds beside each other, and the flat one beside faiss."""
    from vdsh_tf.research.benchmarks import search as measures

    kinds = ["hash", "ivf"]
    if len(codes) <= args.hnsw_rows:
        kinds.append("hnsw")
    result[f"kinds_{name}"] = measures.kinds(
        codes, queries, bits, kinds, args.k, args.repeats
    )
    result[f"faiss_{name}"] = measures.against_faiss(
        codes, queries, bits, args.k, 3 * args.repeats
    )


def random_codes(count: int, bits: int):
    """Random packed codes, and the first hundred with one bit changed."""
    import numpy as np

    from vdsh_tf import codes as codes_lib

    random = np.random.default_rng(0).integers(0, 2, (count, bits), np.uint8)
    one_off = random[:100].copy()
    one_off[:, 0] ^= 1
    return codes_lib.pack(random), codes_lib.pack(one_off)


def measure(args: Args, work: str) -> dict:
    """All measurements; large files go to the folder `work`."""
    import numpy as np

    from vdsh_tf.research.benchmarks import search as measures
    from vdsh_tf.search.hamming import HammingIndex
    from vdsh_tf.search.hasher import Hasher

    directory, split = args.directory, args.split
    if directory.image_shape is None:
        raise ValueError("The benchmark moves images: name a run on images.")
    hasher, bits = Hasher(args.model.encoder), args.model.encoder.bits
    query, database = split.query, split.database
    queries, codes = hasher(query.x), hasher(database.x)
    result = {
        "run": directory.path,
        "bits": bits,
        "queries": len(queries),
        "database": len(codes),
        "distinct_codes": len(np.unique(codes, axis=0)),
    }
    large, result["encode"] = measures.encode_large(
        directory.path, database.x, directory.image_shape, work, args.rows
    )
    result["distinct_codes_large"] = len(np.unique(large, axis=0))
    step = max(1, len(queries) // 100)
    few = np.ascontiguousarray(queries[::step])
    compare(args, "database", codes, queries, bits, result)
    compare(args, "large", large, few, bits, result)
    random, one_off = random_codes(len(large), bits)
    compare(args, "random", random, one_off, bits, result)
    index = HammingIndex(bits)
    index.add(codes)
    result["one_query_ms"] = measures.one_query(hasher, index, query.x, args.k)
    result["evaluation_seconds"] = measures.evaluation(
        queries, query.y, codes, database.y, bits, args.repeats
    )
    result["ties"] = measures.ties(
        few[:20], query.y[::step][:20], codes, database.y
    )
    return result


def benchmark(args: Args) -> None:
    """Measures, prints a table and writes JSON."""
    from vdsh_tf import files
    from vdsh_tf.research.benchmarks import search as measures
    from vdsh_tf.search.structures import import_faiss

    import_faiss().omp_set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        result = measure(args, work)
    out = args.out or args.directory.file("search.json")
    files.write_json(out, result)
    print(measures.table_text(result))
    print(out)


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(benchmark, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
