"""Kills a served encoder at random moments under load; no row may be lost.

    python -m tests.campaigns.killed_encoder --kills=10
    python -m tests.campaigns.killed_encoder --kills=10 --transport=grpc

An exported SavedModel is served by a process of its own. Eight threads of one
`serving.Client` send rows; the process is killed (SIGKILL) and started again on
its ports, again and again. Every second call waits for the server, by
repetitions; the others ask once. Each row must be answered once, with its own
code, the one that Keras gives, or reported by a ServingError; of the calls
that wait, none may be reported. Ten seconds per kill, for TensorFlow to start;
more where the machine has other work.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import random
import subprocess
import sys
import threading
import time

import numpy as np

from tests.support import export_fixtures
from vdsh_tf import serving

THREADS = 8
MOST_ROWS = 40
# A server that was killed must be back before; it imports TensorFlow.
START = 300


class Process:
    """A model server in a process of its own, on ports that stay."""

    def __init__(self, base: str, ports=(0, 0)):
        command = ["-m", "vdsh_tf.research.benchmarks.model_server", base]
        self._process = subprocess.Popen(
            [sys.executable, *command, *map(str, ports)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=export_fixtures.environment(),
        )
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server did not start")
        self.addresses = json.loads(line)
        self.ports = [
            int(self.addresses[name].rpartition(":")[2])
            for name in ("rest", "grpc")
        ]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class Load:
    """Rows that are sent, and what came of each of them."""

    def __init__(self, url: str):
        self.rows = export_fixtures.rows()
        self.want = export_fixtures.codes(self.rows)
        self.waiting = serving.Client(
            url, timeout=START, retries=10_000, backoff=0.05, batch_size=16
        )
        self.once = serving.Client(url, timeout=START, retries=0)
        self.counts: collections.Counter[str] = collections.Counter()
        self.stop = threading.Event()
        self._lock = threading.Lock()

    def run(self, seed: int) -> None:
        """Sends rows until it is to stop."""
        rng = random.Random(seed)
        for number in itertools.count():
            if self.stop.is_set():
                return
            count = rng.randint(1, MOST_ROWS)
            chosen = np.array(rng.choices(range(len(self.rows)), k=count))
            waits = number % 2 == 0
            client = self.waiting if waits else self.once
            what = self.ask(client, chosen)
            with self._lock:
                self.counts[what] += count

    def ask(self, client, chosen) -> str:
        """What became of some rows."""
        try:
            codes = client.encode(self.rows[chosen])
        except serving.ServingError as error:
            if client is self.waiting:
                return f"given up: {error}"
            # Not as fast as errors come.
            time.sleep(0.05)
            return "reported"
        except Exception as error:  # any other is a fault here
            return f"{type(error).__name__}: {error}"
        same = np.array_equal(codes, self.want[chosen])
        return "answered" if same else "wrong"

    def close(self) -> None:
        self.waiting.close()
        self.once.close()


def campaign(kills: int, transport: str, seed: int = 0) -> dict[str, int]:
    """Kills a server so often; rows by what became of them."""
    rng = random.Random(seed)
    base = f"{export_fixtures.out()}/saved_model"
    process = Process(base)
    load = Load(process.addresses[transport])
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        asked = [pool.submit(load.run, seed + i) for i in range(THREADS)]
        try:
            for _ in range(kills):
                time.sleep(rng.uniform(0.1, 1.5))
                process.kill()
                process = Process(base, process.ports)
            time.sleep(1)
        finally:
            load.stop.set()
            for future in asked:
                future.result()
            load.close()
            process.kill()
    return dict(load.counts)


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--transport", default="rest", choices=("rest", "grpc"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    start = time.monotonic()
    counts = campaign(args.kills, args.transport, args.seed)
    print(
        f"{args.transport}, {args.kills} kills: rows {json.dumps(counts)}, "
        f"{time.monotonic() - start:.0f} s"
    )
    return 0 if counts.keys() <= {"answered", "reported"} else 1


if __name__ == "__main__":
    sys.exit(main())
