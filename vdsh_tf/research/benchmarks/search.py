"""Measurements of search, printed by `tools/benchmarks/search.py`.

What is compared is timed in turns, so that a busy machine slows all alike; a
speed is the median over turns. faiss runs on one thread.
"""

import os
import statistics
import subprocess
import sys
import time

import numpy as np

from vdsh_tf.evaluation import curves
from vdsh_tf.evaluation import metrics
from vdsh_tf.search.hamming import HammingIndex

_SHIFTS = sorted(
    ((dy, dx) for dy in range(-2, 3) for dx in range(-2, 3)),
    key=lambda shift: (shift[0] ** 2 + shift[1] ** 2, shift),
)


def in_turns(functions: dict, repeats: int) -> dict[str, float]:
    """Median seconds of each function; the order alternates."""
    return {
        name: statistics.median(taken)
        for name, taken in _turns(functions, repeats).items()
    }


def _turns(functions, repeats):
    seconds = {name: [] for name in functions}
    for function in functions.values():
        function()
    order = list(functions)
    for _ in range(repeats):
        for name in order:
            start = time.perf_counter()
            functions[name]()
            seconds[name].append(time.perf_counter() - start)
        order.reverse()
    return seconds


def against_faiss(codes, queries, bits, k, repeats) -> dict:
    """Queries per second of the flat kind and of faiss called directly.

    A ratio is the median over pairs of turns, one in each order: drift of the
    machine's speed changes it less than a ratio of medians.
    """
    import faiss

    index = HammingIndex(bits)
    index.add(codes)
    direct = faiss.IndexBinaryFlat(8 * codes.shape[1])
    direct.add(codes)
    calls = {
        "": (
            lambda: index.search(queries, k),
            lambda: direct.search(queries, k),
        ),
        "_radius": (
            lambda: index.radius_search(queries, 2),
            lambda: direct.range_search(queries, 3),
        ),
    }
    result = {}
    for name, (ours, theirs) in calls.items():
        took = _turns({"ours": ours, "faiss": theirs}, 2 * repeats)
        pairs = {
            who: [a + b for a, b in zip(t[::2], t[1::2], strict=True)]
            for who, t in took.items()
        }
        for who, taken in took.items():
            result[who + name] = len(queries) / statistics.median(taken)
        result["ratio" + name] = statistics.median(
            f / o for f, o in zip(pairs["faiss"], pairs["ours"], strict=True)
        )
    return result


def kinds(codes, queries, bits, names, k, repeats) -> dict:
    """Building time, speed and recall of each kind, beside the flat one."""
    indexes, result = {}, {}
    for name in ("flat", *names):
        start = time.perf_counter()
        indexes[name] = HammingIndex(bits, name)
        indexes[name].add(codes)
        if name != "flat":
            # A structure is built at the first search.
            indexes[name].search(queries[:1], 1)
        result[name] = {"build_seconds": time.perf_counter() - start}
    searches = {n: lambda i=i: i.search(queries, k) for n, i in indexes.items()}
    balls = {
        n: lambda i=i: i.radius_search(queries, 2) for n, i in indexes.items()
    }
    search = in_turns(searches, repeats)
    radius = in_turns(balls, repeats)
    exact = searches["flat"]().distances
    all_hits = _hits(balls["flat"](), len(queries))
    total = sum(map(len, all_hits))
    for name in indexes:
        hits = _hits(balls[name](), len(queries))
        found = sum(len(a & b) for a, b in zip(all_hits, hits, strict=True))
        result[name].update(
            search_per_second=len(queries) / search[name],
            search_speed_up=search["flat"] / search[name],
            # By distance: which of equally near items are found is open.
            search_recall=float(np.mean(searches[name]().distances == exact)),
            radius_per_second=len(queries) / radius[name],
            radius_speed_up=radius["flat"] / radius[name],
            radius_recall=found / max(1, total),
            radius_hits=total / len(queries),
        )
    return result


def _hits(ball, count):
    """The ids found for each query, as sets."""
    return [set(ball.sorted_hits(q)[1].tolist()) for q in range(count)]


def one_query(hasher, index, x, k) -> dict:
    """Milliseconds from one raw row to its neighbours."""
    marks = np.zeros((len(x), 3))
    for _ in range(2):
        for i in range(len(x)):
            marks[i, 0] = time.perf_counter()
            codes = hasher(x[i : i + 1])
            marks[i, 1] = time.perf_counter()
            index.search(codes, k)
            marks[i, 2] = time.perf_counter()
    parts = 1e3 * np.diff(marks, axis=1)
    took = {
        "hash": parts[:, 0],
        "search": parts[:, 1],
        "both": parts.sum(axis=1),
    }
    return {
        f"{name}_p{p}": float(np.percentile(values, p))
        for name, values in took.items()
        for p in (50, 99)
    }


def evaluation(queries, query_labels, codes, labels, bits, repeats) -> float:
    """Seconds for all metrics and curves."""

    def evaluate():
        counts = metrics.count_by_distance(queries, query_labels, codes, labels)
        metrics.summarize(counts, codes, bits)
        curves.retrieval_curves(counts)

    return in_turns({"all": evaluate}, repeats)["all"]


def ties(queries, query_labels, codes, labels, shuffles=1000) -> dict:
    """Tie-aware mAP beside that of rankings with ties in random order."""
    counts = metrics.count_by_distance(queries, query_labels, codes, labels)
    xor = queries[:, None] ^ codes[None]
    distance = np.bitwise_count(xor).sum(axis=2, dtype=np.uint16)
    relevant = metrics.relevance(query_labels, labels)
    places = np.arange(1, len(codes) + 1)
    rng = np.random.default_rng(0)
    scores = np.zeros(shuffles)
    for s in range(shuffles):
        order = rng.permutation(len(codes))
        for d, r in zip(distance, relevant, strict=True):
            ranked = r[order][np.argsort(d[order], kind="stable")]
            hits = np.cumsum(ranked)
            scores[s] += np.mean((hits / places)[ranked])
    scores /= len(queries)
    expected = metrics.mean_average_precision(counts)
    error = scores.std(ddof=1) / np.sqrt(shuffles)
    return {
        "expected": expected,
        "mean_of_shuffles": scores.mean(),
        "standard_error": error,
        "gap_in_standard_errors": abs(scores.mean() - expected) / error,
    }


def write_shifted(path, x, image_shape, count) -> None:
    """Writes images moved by up to two pixels, shortest moves first.

    Args:
        path: .npy file, [count, d].
        x: [n, d], images as rows.
        image_shape: of one row.
        count: number of rows to write.
    """
    if count > len(x) * len(_SHIFTS):
        raise ValueError(
            f"`count` must be at most {len(x) * len(_SHIFTS)}, 25 moves of "
            f"{len(x)} images. Received: count={count}."
        )
    header = {
        "descr": np.lib.format.dtype_to_descr(x.dtype),
        "fortran_order": False,
        "shape": (count, x.shape[1]),
    }
    with open(path, "wb") as f:
        np.lib.format.write_array_header_1_0(f, header)
        for start in range(0, count, len(x)):
            images = x[: count - start].reshape(-1, *image_shape)
            moved = _shift(images, *_SHIFTS[start // len(x)])
            f.write(moved.tobytes())


def _shift(images, dy, dx):
    moved = np.zeros_like(images)
    height, width = images.shape[1:3]
    rows = slice(max(0, dy), height + min(0, dy))
    from_rows = slice(max(0, -dy), height + min(0, -dy))
    columns = slice(max(0, dx), width + min(0, dx))
    from_columns = slice(max(0, -dx), width + min(0, -dx))
    moved[:, rows, columns] = images[:, from_rows, from_columns]
    return moved


def encode_in_child(run_dir, source, out) -> dict:
    """Runs `tools/encode.py`; seconds and peak memory of that process."""
    command = [
        *(sys.executable, "-m", "vdsh_tf.tools.encode"),
        f"--run_dir={run_dir}",
        f"--input={source}",
        f"--out={out}",
    ]
    # A child's peak starts at the size of its parent, so a small process
    # comes between this one and the tool.
    between = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "_, status, usage = os.wait4(child.pid, 0)\n"
        "print(usage.ru_maxrss)\n"
        "sys.exit(os.waitstatus_to_exitcode(status))\n"
    )
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", between, *command],
        stdout=subprocess.PIPE,
        check=False,
        # The library that is measured here, wherever it was imported from.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if done.returncode:
        raise RuntimeError(f"tools/encode.py ended with {done.returncode}.")
    return {
        "seconds": time.perf_counter() - start,
        "peak_mb": int(done.stdout) / 1024,
    }


def encode_large(run_dir, x, image_shape, work, rows) -> tuple:
    """Codes of many moved images; time and peak memory of encoding them."""
    taken = {}
    source, out = (os.path.join(work, n) for n in ("rows.npy", "codes.npy"))
    for count in (max(1, rows // 10), rows):
        write_shifted(source, x, image_shape, count)
        taken[count] = encode_in_child(run_dir, source, out)
    small, large = taken.values()
    return np.load(out), {
        "rows": taken,
        "rows_per_second": rows / large["seconds"],
        "peak_ratio": large["peak_mb"] / small["peak_mb"],
    }


def table_text(result, prefix="") -> str:
    """The numbers of a nested result, one per line."""
    lines = []
    for name, value in result.items():
        if isinstance(value, dict):
            lines.append(table_text(value, f"{prefix}{name} / "))
        else:
            shown = f"{value:.6g}" if isinstance(value, float) else value
            lines.append(f"{prefix + str(name):58} {shown}")
    return "\n".join(lines)
