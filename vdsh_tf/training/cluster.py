"""Which machines train together: TF_CONFIG, and workers on this machine.

TF_CONFIG is what TensorFlow reads, JSON such as

    {"cluster": {"worker": ["host1:12345", "host2:12345"]},
     "task": {"type": "worker", "index": 0}}

with the same cluster on every machine and an index of its own. This module
imports no TensorFlow.
"""

import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

VARIABLE = "TF_CONFIG"
_EXAMPLE = (
    '{"cluster": {"worker": ["host1:12345", "host2:12345"]}, "task": {"type": '
    '"worker", "index": 0}}'
)
_ADDRESS = re.compile(r"(?P<host>[^\s:/]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d+)")
# Workers that are told of a loss by TensorFlow stop well within it.
_GRACE = 60
# Machines start jobs at different times.
WAIT = 600


class Cluster(NamedTuple):
    """The workers of a job, and which of them this process is.

    Attributes:
        addresses: "host:port" of all workers; the first is the chief.
        number: of this worker, from 0.
    """

    addresses: tuple[str, ...]
    number: int

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes the files."""
        return self.number == 0

    @property
    def name(self) -> str:
        """This worker, in messages."""
        return self.name_of(self.number)

    def name_of(self, number: int) -> str:
        """A worker, in messages."""
        return f"worker {number} ({self.addresses[number]})"


def from_environment(environment: Mapping[str, str]) -> Cluster | None:
    """Reads and checks TF_CONFIG; None if it is not set.

    Raises:
        ValueError: it does not say what a worker must know.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _wrong(f"it is no JSON: {error}", text) from error
    if not isinstance(found, dict) or not isinstance(
        found.get("cluster"), dict
    ):
        raise _wrong('it has no "cluster"', text)
    jobs = found["cluster"]
    if unknown := set(jobs) - {"chief", "worker"}:
        raise _wrong(
            f"its cluster has {', '.join(sorted(unknown))}, where all are "
            "workers and one may be called chief",
            text,
        )
    chief, workers = (
        _addresses(jobs, job, text) for job in ("chief", "worker")
    )
    addresses = (*chief, *workers)
    if len(chief) > 1 or not addresses:
        raise _wrong("there must be workers, and at most one chief", text)
    if len(set(addresses)) < len(addresses):
        raise _wrong("two workers have the same address", text)
    return Cluster(addresses, _number(found, chief, workers, text))


def _addresses(jobs, job, text):
    found = jobs.get(job, [])
    if not isinstance(found, list):
        raise _wrong(f'"{job}" is no list of addresses', text)
    for address in found:
        match = isinstance(address, str) and _ADDRESS.fullmatch(address)
        if not match or not 0 < int(match["port"]) < 2**16:
            raise _wrong(f"{address!r} is no host:port", text)
    return found


def _number(found, chief, workers, text):
    task = found.get("task")
    if not isinstance(task, dict) or "index" not in task:
        raise _wrong(
            '"task" does not say which worker this is, by "type" and "index"',
            text,
        )
    kind, index = task.get("type", "worker"), task["index"]
    counts = {"chief": len(chief), "worker": len(workers)}
    if kind not in counts:
        raise _wrong(f"the task's type is {kind!r}, not chief or worker", text)
    if not isinstance(index, int | str) or not str(index).isdigit():
        raise _wrong(f"the task's index is {index!r}, no number", text)
    if int(index) >= counts[kind]:
        raise _wrong(
            f"the task's index is {index}, and there are {counts[kind]} of "
            f"type {kind}, counted from 0",
            text,
        )
    return int(index) + (len(chief) if kind == "worker" else 0)


def _wrong(what, text):
    shown = text if len(text) <= 300 else f"{text[:300]}..."
    return ValueError(
        f"{VARIABLE} must say which workers there are and which one this is, "
        f"such as {_EXAMPLE}; {what}. Received: {shown}"
    )


def meet(cluster: Cluster, seconds: float = WAIT) -> None:
    """Returns when all workers of the cluster answer on their ports.

    TensorFlow would wait for them without end, and without a word.

    Args:
        cluster: Cluster.
        seconds: to wait for the others.

    Raises:
        OSError: another process has this worker's port.
        RuntimeError: some worker did not come.
    """
    missing = set(range(len(cluster.addresses))) - {cluster.number}
    deadline = time.monotonic() + seconds
    with socket.socket() as own:
        _listen(own, cluster)
        while missing:
            missing = {i for i in missing if not _answers(cluster, i)}
            if missing and time.monotonic() > deadline:
                names = ", ".join(map(cluster.name_of, sorted(missing)))
                raise RuntimeError(
                    "All workers must be started, and reach each other, within "
                    f"{seconds:g} s; {cluster.name} has not reached {names}. "
                    f"Look at {VARIABLE}, at firewalls, and whether they run."
                )
            time.sleep(0.1 if missing else 0)


def _listen(own, cluster):
    port = int(cluster.addresses[cluster.number].rpartition(":")[2])
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind(("", port))
        own.listen(2 * len(cluster.addresses))
    except OSError as error:
        raise OSError(
            f"Port {port} of {cluster.name} must be free, but another process "
            "of this machine has it: maybe a worker of an earlier job. End "
            "that one, or give other ports."
        ) from error


def _answers(cluster, number):
    host, _, port = cluster.addresses[number].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 1):
            return True
    except OSError:
        return False


def launch(count: int, command: Sequence[str]) -> None:
    """Runs workers on this machine until all are done.

    The chief writes where this process does; of the others, errors are shown.
    The machine's cores are divided among them.

    Args:
        count: number of workers.
        command: what each of them runs.

    Raises:
        RuntimeError: a worker failed; all have stopped.
    """
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    threads = str(max(1, (os.cpu_count() or 1) // count))
    with tempfile.TemporaryDirectory() as folder:
        logs = [os.path.join(folder, f"{i}") for i in range(count)]
        started: list[subprocess.Popen] = []
        try:
            for index, log in enumerate(logs):
                task = {"type": "worker", "index": index}
                config = {"cluster": {"worker": addresses}, "task": task}
                environment = {
                    "TF_NUM_INTRAOP_THREADS": threads,
                    "TF_NUM_INTEROP_THREADS": threads,
                    **os.environ,
                    VARIABLE: json.dumps(config),
                }
                started.append(_start(command, environment, index and log))
            codes = _wait(started)
        finally:
            _stop(started)
        failed = [i for i, code in enumerate(codes) if code]
        if failed:
            raise RuntimeError(_report(failed, codes, logs))


def _start(command, environment, log):
    """A worker; its output goes to the file `log`, or where ours does."""
    if not log:
        return subprocess.Popen(command, env=environment)
    with open(log, "w") as errors:
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )


def _wait(started):
    """Exit codes, in the order of workers; None for one that hangs."""
    deadline = None
    while True:
        codes = [process.poll() for process in started]
        if None not in codes:
            return codes
        if deadline is None and any(codes):
            deadline = time.monotonic() + _GRACE
        if deadline is not None and time.monotonic() > deadline:
            return codes
        time.sleep(0.1)


def _stop(started):
    for process in started:
        if process.poll() is None:
            process.terminate()
    for process in started:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _report(failed, codes, logs):
    # The first cause is a worker that was killed, not those it took along.
    first = min(failed, key=lambda i: (codes[i] or 0, i))
    how = f"exit code {codes[first]}"
    if codes[first] < 0:
        how = f"signal {-codes[first]}"
    text = f"Worker {first} of {len(codes)} stopped early ({how})"
    if os.path.isfile(logs[first]):
        with open(logs[first]) as f:
            lines = f.read().strip().splitlines()
        if lines and lines[-1].startswith("error: "):
            text += f": {lines[-1].removeprefix('error: ')}"
    return f"{text.rstrip('.')}. All workers have stopped."


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody has."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
