"""Team: a worker of a training job, and what it agrees on with the others."""

import contextlib
import hashlib
import json
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import vdsh_tf
from vdsh_tf.distribution.replicas import Replicas
from vdsh_tf.training import cluster as cluster_lib
from vdsh_tf.training.cluster import Cluster

# What TensorFlow raises when a worker is gone, at one place or another.
_LOSSES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.InternalError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)


class WorkerLostError(RuntimeError):
    """Another worker is gone, and with it what it knew of the batch."""


class Team:
    """This worker among all.

    Make it before TensorFlow does anything else: the strategy starts the
    server that others connect to.

    Attributes:
        cluster: Cluster.
        strategy: MultiWorkerMirroredStrategy.
        replicas: Replicas of the strategy.
    """

    def __init__(self, cluster: Cluster):
        cluster_lib.meet(cluster)
        self.cluster = cluster
        with self.watching():
            self.strategy = tf.distribute.MultiWorkerMirroredStrategy()
            self.replicas = Replicas(self.strategy)

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes the files."""
        return self.cluster.is_chief

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Says in one sentence that another worker was lost."""
        try:
            yield
        except _LOSSES as error:
            cause = str(error).strip().splitlines() or [type(error).__name__]
            raise WorkerLostError(
                f"All {len(self.cluster.addresses)} workers must be there, or "
                f"no sum over a batch is whole; {self.cluster.name} has lost "
                "another one and stops. The last checkpoint is kept: start all "
                "workers again, and resume. TensorFlow says: "
                f"{_telling(cause)}"
            ) from error

    def exchange(self, text: str) -> list[str]:
        """What all workers say at this point, in their order."""
        own = np.frombuffer(text.encode(), np.uint8)
        with self.watching():
            sizes = self._gather(np.array([len(own)], np.float64), 1)
            rows = self._gather(own, int(sizes.max()))
        return [
            bytes(row[: int(size)].astype(np.uint8)).decode()
            for row, (size,) in zip(rows, sizes, strict=True)
        ]

    def _gather(self, own, width):
        """Rows [workers, width] of all; each adds its own to zeros."""
        rows = np.zeros([len(self.cluster.addresses), width])
        values = [[rows.copy()] for _ in self.replicas.local]
        values[0][0][self.cluster.number, : len(own)] = own
        return self.replicas.total(values)[0]

    def from_chief(self, function: Callable[[], Any]) -> Any:
        """What `function` gives on the chief, as JSON, for all workers.

        An error of the chief's ends all of them.
        """
        said, error = {}, None
        if self.is_chief:
            try:
                said = {"result": function()}
            except Exception as raised:
                error, said = raised, {"error": str(raised)}
        said = json.loads(self.exchange(json.dumps(said))[0])
        if error is not None:
            raise error
        if "error" in said:
            raise RuntimeError(
                f"{self.cluster.name_of(0).capitalize()}, the chief, stopped, "
                f"and so does {self.cluster.name}: {said['error']}"
            )
        return said["result"]

    def check_same(self, **parts: str) -> None:
        """Refuses a worker that has other code, settings or data.

        Args:
            **parts: texts that must be the same for all, by what they are.
        """
        digests = {
            name.replace("_", " "): hashlib.sha256(text.encode()).hexdigest()
            for name, text in parts.items()
        }
        first, *others = map(json.loads, self.exchange(json.dumps(digests)))
        for number, found in enumerate(others, start=1):
            other = [name for name in first if found.get(name) != first[name]]
            if other:
                raise ValueError(
                    "All workers must have the same code, settings and data, "
                    "or their sums mean nothing; those of "
                    f"{self.cluster.name_of(number)} are not the chief's: "
                    f"other {' and '.join(other)}. Bring it up to date, and "
                    "start all again."
                )


def code_version() -> str:
    """Version of the package and digest of its sources, and TensorFlow's."""
    root = pathlib.Path(vdsh_tf.__file__).parent
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(path.relative_to(root).as_posix().encode())
        total.update(path.read_bytes())
    return f"{vdsh_tf.__version__} {total.hexdigest()} {tf.__version__}"


def _telling(lines):
    """The line of an error that says most."""
    words = ("aborted", "unhealthy", "heartbeat", "down", "connect", "closed")
    found = (line for line in lines if any(w in line.lower() for w in words))
    return next(found, lines[-1]).strip()[:300]
