"""Encodes the parts of a job on a Ray cluster, by Ray Data.

Actors hold a session of the encoder. Each takes a part at a time, reads and
writes the files itself, and hands back what became of it, so that only names
and counts travel. A part is written atomically and the same by whoever does
it: what a lost machine had begun, another does again.
"""

import logging
import queue
import socket
import threading
from collections.abc import Iterator

from vdsh_tf.encoding import parts as parts_lib
from vdsh_tf.encoding.jobs import Job
from vdsh_tf.encoding.jobs import Part
from vdsh_tf.encoding.onnx_encoder import OnnxEncoder
from vdsh_tf.encoding.parts import Outcome

# Times that parts which no machine finished are handed out again.
_PASSES = 3


class Cluster:
    """An engine for `runs.run`.

    Args:
        address: "auto" for the cluster that this machine belongs to, or
            HOST:PORT of its head.
        patience: seconds without a finished part after which to give up.
    """

    def __init__(self, address: str = "auto", patience: float = 3600):
        self._address = address
        self._patience = patience

    def __call__(self, job: Job, parts: list[Part]) -> Iterator[Outcome]:
        """Yields outcomes as they come, in no particular order."""
        ray = connect(self._address)
        left = {part.source: part for part in parts}
        try:
            content = ray.put(job)
            for _ in range(_PASSES):
                for outcome in self._watched(content, list(left.values())):
                    left.pop(outcome.source, None)
                    yield outcome
                if not left:
                    return
        finally:
            ray.shutdown()

    def _watched(self, content, parts):
        """Outcomes of one pass; an error if none comes for too long."""
        found: queue.Queue = queue.Queue()

        def work():
            try:
                for row in _dataset(content, parts).iter_rows():
                    found.put(Outcome(**row))
                found.put(None)
            except Exception as error:
                found.put(error)

        threading.Thread(target=work, daemon=True).start()
        while True:
            try:
                outcome = found.get(timeout=self._patience)
            except queue.Empty:
                raise RuntimeError(
                    f"The cluster must finish a part within {self._patience:g} "
                    "seconds, and has not. Finished parts are kept: see to its "
                    "machines (`ray status`), and run the same command again."
                ) from None
            if outcome is None:
                return
            if isinstance(outcome, Exception):
                raise RuntimeError(
                    "The cluster must stay in reach while it encodes, and did "
                    "not. Finished parts are kept: run the same command again. "
                    f"Cause: {type(outcome).__name__}: {outcome}"
                ) from outcome
            yield outcome


class Worker:
    """Encodes parts in an actor."""

    def __init__(self, content):
        import ray

        self._job: Job = ray.get(content[0])
        self._encoder = OnnxEncoder(self._job.encoder, threads=1)

    def __call__(self, batch):
        rows = zip(*(batch[name] for name in Part._fields), strict=True)
        done = [
            parts_lib.process(self._job, _part(row), self._encoder)
            for row in rows
        ]
        return {
            name: [getattr(outcome, name) for outcome in done]
            for name in Outcome._fields
        }


def connect(address: str, timeout: float = 10):
    """Ray, connected to a cluster, or an error that says what is wrong."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError(
            "A cluster needs Ray, which is not installed. Run "
            "`pip install 'vdsh_tf[cluster]'`, on all its machines."
        ) from error
    try:
        if address != "auto":
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout).close()
        ray.init(
            address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
        )
    except (OSError, ValueError, OverflowError, RuntimeError) as error:
        raise ConnectionError(
            f"A Ray cluster must answer at {address}; it does not. Start it "
            "(`ray start --head` on one machine, `ray start --address=HOST:"
            "6379` on the others), give --cluster=auto on one of its machines "
            "or the head's HOST:PORT, or leave --cluster out to encode here. "
            f"Cause: {type(error).__name__}: {error}"
        ) from error
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    return ray


def _dataset(content, parts):
    import ray

    actors = max(1, int(ray.cluster_resources().get("CPU", 1)))
    rows = [part._asdict() for part in parts]
    source = ray.data.from_items(rows, override_num_blocks=len(rows))
    return source.map_batches(
        Worker,
        # In a list, or Ray fetches it once for all.
        fn_constructor_args=([content],),
        batch_size=1,
        num_cpus=1,
        concurrency=(1, min(actors, len(rows))),
    )


def _part(row):
    source, target, rows, first = row
    return Part(str(source), str(target), int(rows), int(first))
