"""Load test of the client: one row per request, from many threads."""

import concurrent.futures
import json
import os
import subprocess
import sys
import time

import numpy as np

from vdsh_tf import serving
from vdsh_tf.research.benchmarks import model_server


def measure(base, rows, want, requests: int, threads: int) -> list[dict]:
    """Loads the test server, in a process of its own, by REST and gRPC.

    Args:
        base: folder of versions, as the export wrote it.
        rows: [n, d], sent one by one, over and over.
        want: [n, ceil(K/8)], their codes.
        requests: number of requests for each protocol.
        threads: number of threads that send them.
    """
    server = subprocess.Popen(
        [sys.executable, "-m", model_server.__name__, os.path.abspath(base)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        addresses = json.loads(server.stdout.readline())
        return [
            {"kind": kind, **load(url, rows, want, requests, threads)}
            for kind, url in addresses.items()
        ]
    finally:
        server.stdin.close()
        server.wait()


def load(url: str, rows, want, requests: int, threads: int) -> dict:
    """Sends requests to a server and counts what is lost or wrong."""
    with serving.Client(url) as client:
        client.encode(rows[:1])

        def one(number):
            place = number % len(rows)
            start = time.perf_counter()
            try:
                code = client.encode(rows[place : place + 1])
            except serving.ServingError:
                return None
            spent = time.perf_counter() - start
            return spent, int(np.bitwise_count(code ^ want[place]).sum())

        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(one, range(requests)))
        spent = time.perf_counter() - start
    served = [entry for entry in found if entry is not None]
    times = 1e3 * np.array([entry[0] for entry in served])
    return {
        "requests": requests,
        "threads": threads,
        "lost": len(found) - len(served),
        "bits_unlike_onnx": sum(entry[1] for entry in served),
        "p50_ms": float(np.percentile(times, 50)),
        "p99_ms": float(np.percentile(times, 99)),
        "per_second": len(served) / spent,
    }
