"""Holds the client against servers that mean harm, and tables what happens.

    python -m tests.campaigns.hostile_server            # two minutes
    python -m tests.campaigns.hostile_server --only=rest --timeout=2

Each behaviour must end in a ServingError that can be shown as it is, or in
the right answer where one is possible, within 1.5 times the time-out and
200 MB. Memory is the highest that the client's process had beyond what it had
before the call; it is read from /proc, where there is one.
"""

import argparse
import contextlib
import dataclasses
import importlib
import os
import pathlib
import sys
import time

import numpy as np

from tests.campaigns import rest_cases
from tests.support import bad_servers
from vdsh_tf import serving

MOST_TIME = 1.5
MOST_MEMORY = 200e6
MOST_TEXT = 2003
# What a well-behaved server answers to three rows.
WANTED = np.array([rest_cases.CODE] * 3, np.uint8)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one behaviour."""

    name: str
    transport: str
    result: str
    share: float
    peak: float
    fault: str

    def row(self) -> str:
        return (
            f"| {self.name} | {self.transport} | {self.result} | "
            f"{self.share:.2f} | {self.peak / 1e6:.0f} | {self.fault or 'ok'} |"
        )


class Peak:
    """The highest memory of this process within a block, beyond its start."""

    def __enter__(self):
        with contextlib.suppress(OSError):
            # Linux forgets the highest so far.
            pathlib.Path("/proc/self/clear_refs").write_text("5")
        self._start = self._read("VmRSS")
        return self

    def __exit__(self, *unused):
        self.bytes = self._read("VmHWM") - self._start

    @staticmethod
    def _read(key):
        with contextlib.suppress(OSError), open("/proc/self/status") as f:
            for line in f:
                if line.startswith(key):
                    return 1024 * int(line.split()[1])
        return 0


def ask(client, case):
    """Calls the client as the case says."""
    if case.ask == "fingerprint":
        return client.fingerprint()
    if case.ask == "images":
        return client.encode_images(np.ones((3, 1, 2, 1), np.uint8))
    return getattr(client, case.ask)(np.ones((3, case.width), np.float32))


def judge(case, found) -> tuple[str, str]:
    """What to show of a result or an error, and what is wrong with it."""
    if isinstance(found, serving.ServingError):
        text = str(found)
        good = text.isprintable() and len(text) <= MOST_TEXT
        return f"refused: {text[:60]}", "" if good else "TEXT"
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {str(found)[:60]!r}", "TRACEBACK"
    right = case.answers and np.array_equal(found, WANTED)
    return "answer", "" if right else "WRONG ANSWER"


def run(case, transport: str, url: str, timeout: float, model="vdsh"):
    """Lets the client meet one behaviour."""
    start = time.monotonic()
    with (
        Peak() as peak,
        serving.Client(url, model, timeout=timeout, backoff=0.02) as client,
    ):
        try:
            found = ask(client, case)
        except Exception as error:  # any error is a result here
            found = error
    share = (time.monotonic() - start) / timeout
    result, fault = judge(case, found)
    if share > MOST_TIME:
        fault += " TIME"
    if peak.bytes > MOST_MEMORY:
        fault += " MEMORY"
    return Outcome(
        case.name,
        transport,
        result.replace("|", "/"),
        share,
        peak.bytes,
        fault.strip(),
    )


def run_raw(case, transport, timeout):
    """A behaviour of a server of its own, in a thread."""
    scheme = {"rest": "http", "grpc": "grpc"}[transport]
    server = case.start()
    try:
        url = f"{scheme}://127.0.0.1:{server.port}"
        return run(case, transport, url, timeout)
    finally:
        server.close()


def run_rest(cases, timeout):
    """Yields the outcomes of HTTP servers."""
    for case in cases:
        yield run_raw(case, "rest", timeout)


def run_grpc(cases, timeout):
    """Yields the outcomes of gRPC servers."""
    named = {f"case-{i}": case for i, case in enumerate(cases)}
    server = bad_servers.GrpcServer(
        {name: case.replies for name, case in named.items()}
    )
    # Thread pools and TensorFlow are not what is measured.
    url = f"grpc://127.0.0.1:{server.port}"
    with (
        serving.Client(url, next(iter(named))) as client,
        contextlib.suppress(serving.ServingError),
    ):
        client.signatures()
    try:
        for name, case in named.items():
            if case.raw is not None or case.server:
                yield run_raw(case, "grpc", timeout)
            else:
                yield run(case, "grpc", url, timeout, name)
    finally:
        server.close()


def campaign(transports, timeout):
    """Yields all outcomes."""
    if "rest" in transports:
        yield from run_rest(rest_cases.CASES, timeout)
    if "grpc" in transports:
        grpc_cases = importlib.import_module("tests.campaigns.grpc_cases")
        yield from run_grpc(grpc_cases.CASES, timeout)


def main() -> int:
    """Prints the table; the exit code says whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timeout", type=float, default=1.0)
    parser.add_argument("--only", choices=("rest", "grpc"))
    args = parser.parse_args()
    transports = (args.only,) if args.only else ("rest", "grpc")
    print("| behaviour | transport | outcome | s / time-out | MB | verdict |")
    print("|---|---|---|---|---|---|")
    found = []
    for outcome in campaign(transports, args.timeout):
        found.append(outcome)
        print(outcome.row(), flush=True)
    bad = [outcome for outcome in found if outcome.fault]
    print(
        f"\n{len(found)} behaviours, {len(bad)} faults; longest "
        f"{max(o.share for o in found):.2f} x the time-out, most memory "
        f"{max(o.peak for o in found) / 1e6:.0f} MB"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main())
