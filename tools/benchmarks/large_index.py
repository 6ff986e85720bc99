"""Measures a mapped index: build, open, one query, memory.

    python tools/benchmarks/large_index.py      # 100,000,000 codes of 64 bits
    python tools/benchmarks/large_index.py --count=1000000 --out=large.json

Half of the codes are random, half are near-copies (up to two bits changed) of
10,000 centres, as trained codes are. Every step runs in a process of its own,
whose peak memory is measured. A minute and 4 GB of disk.
"""

import dataclasses
import os
import sys
import tempfile
import time
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold

_STEP = 1 << 20
_CENTRES = 10_000
KINDS = ("flat", "hash")


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    count: int = setting(100_000_000, COUNT, "Number of codes.")
    bits: int = setting(64, COUNT, "Length of a code; a multiple of 64.")
    queries: int = setting(20, COUNT, "Queries of each sort.")
    k: int = setting(10, COUNT, "Neighbours of a query.")
    work: str | None = setting(
        None, ANY, "Folder for the files; default a temporary one."
    )
    out: str | None = setting(None, ANY, "JSON file.", flag=flags.FILE)


def write_codes(path: str, count: int, bits: int) -> None:
    """Writes codes as .npy, piece by piece."""
    import numpy as np

    rng = np.random.default_rng(0)
    centres = rng.integers(0, 256, (_CENTRES, bits // 8), np.uint8)
    codes = np.lib.format.open_memmap(path, "w+", np.uint8, (count, bits // 8))
    for start in range(0, count, _STEP):
        part = codes[start : start + _STEP]
        part[:] = rng.integers(0, 256, part.shape, np.uint8)
        near = centres[rng.integers(0, _CENTRES, (len(part) + 1) // 2)]
        for _ in range(2):
            at = rng.integers(0, bits // 8, len(near))
            flip = np.uint8(1) << rng.integers(0, 8, len(near), np.uint8)
            near[np.arange(len(near)), at] ^= flip
        part[::2] = near
    codes.flush()


def build(path: str, codes: str, bits: int, kind: str) -> dict:
    """Writes the index; seconds and bytes."""
    import numpy as np

    from vdsh_tf.search import mapped

    rows = np.load(codes, mmap_mode="r")
    start = time.perf_counter()
    mapped.write(path, rows, bits, kind)
    return {
        "build_seconds": time.perf_counter() - start,
        "bytes": os.path.getsize(path),
    }


def query(path: str, codes: str, queries: int, k: int) -> dict:
    """Opens the index and searches for one query after the other."""
    import numpy as np

    from vdsh_tf.search import structures
    from vdsh_tf.search.hamming import HammingIndex

    structures.import_faiss()
    start = time.perf_counter()
    index = HammingIndex.load(path)
    result = {"open_seconds": time.perf_counter() - start}
    rows = np.load(codes, mmap_mode="r")
    step = max(2, len(rows) // queries // 2 * 2)
    sorts = {"trained": rows[::step], "random": rows[1::step]}
    for name, few in sorts.items():
        few = np.array(few[:queries])
        # Near-copies have hundreds within 2 bits. With a bit changed they would
        # have about ten, and the tenth decides between buckets and a scan.
        if name == "random":
            few[:, 0] ^= 1
        for what, ask in (
            ("nearest", lambda q: index.search(q, k)),
            ("radius_2", lambda q: index.radius_search(q, 2)),
        ):
            times = []
            for code in few:
                start = time.perf_counter()
                ask(code[None])
                times.append(1000 * (time.perf_counter() - start))
            result[f"{name}_{what}_first_ms"] = times[0]
            result[f"{name}_{what}_ms"] = float(np.median(times))
    return result


def alone(function: str, *args) -> dict:
    """Runs a function of this module in a new process, with its memory."""
    from vdsh_tf.research.benchmarks import memory

    return memory.alone("vdsh_tf.tools.benchmarks.large_index", function, *args)


def measure(args: Args, work: str) -> dict:
    """All measurements, by kind."""
    codes = os.path.join(work, "codes.npy")
    write_codes(codes, args.count, args.bits)
    result: dict = {"count": args.count, "bits": args.bits, "k": args.k}
    for kind in KINDS:
        path = os.path.join(work, f"{kind}.map")
        made = alone("build", path, codes, args.bits, kind)
        made["build_peak_mb"] = made.pop("peak_mb")
        asked = alone("query", path, codes, args.queries, args.k)
        result[kind] = {**made, **asked}
        os.remove(path)
    os.remove(codes)
    return result


def benchmark(args: Args) -> None:
    """Measures, prints a table and writes JSON."""
    from vdsh_tf import files

    if args.bits % 64:
        raise ValueError(
            f"--bits must be a multiple of 64 here. Received: {args.bits}."
        )
    if args.work:
        result = measure(args, args.work)
    else:
        with tempfile.TemporaryDirectory() as work:
            result = measure(args, work)
    if args.out:
        files.write_json(args.out, result)
    width = max(map(len, result["hash"]))
    print(f"{'':{width}}  " + "".join(f"{kind:>14}" for kind in KINDS))
    for name in result["hash"]:
        row = "".join(f"{result[kind][name]:14.6g}" for kind in KINDS)
        print(f"{name:{width}}  {row}")


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(benchmark, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
