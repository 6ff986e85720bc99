"""Formulas: sizes in bytes, times in seconds, from a few measured rates.

Every rate is either measured (`measures.py`) or an `Assumptions` field. The
formulas are short on purpose: each can be checked against a measurement at
another size, which `measures.check` does.
"""

import dataclasses
import itertools
import math

from vdsh_tf.search import buckets
from vdsh_tf.search import structures

FLOAT = 4
ID = 8


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """What is not measured here.

    Attributes:
        latency: seconds of a message between two machines.
        network_share: of the line's rate that an all-reduce reaches.
        core_price: of one core and its memory for an hour.
        memory_price: of a GB of memory beyond that for an hour.
        disk_price: of a GB of disk for a month.
        gpu_price: of one GPU for an hour.
        gpu_flops: products in float32 that a training step reaches on it.
        memory_per_core: GB that come with a core.
    """

    latency: float = 50e-6
    network_share: float = 0.8
    core_price: float = 0.05
    memory_price: float = 0.005
    disk_price: float = 0.08
    gpu_price: float = 2.0
    gpu_flops: float = 10e12
    memory_per_core: float = 4.0


@dataclasses.dataclass(frozen=True)
class Network:
    """An encoder and its classifier.

    Attributes:
        dim, width, layers, bits, classes: as for `VDSH`.
    """

    dim: int = 128
    width: int = 512
    layers: int = 16
    bits: int = 64
    classes: int = 1000

    @property
    def encoder_weights(self) -> int:
        """Number of weights of all layers."""
        dims = [self.dim, *[self.width] * (self.layers - 1), self.bits]
        return sum(a * b for a, b in itertools.pairwise(dims))

    @property
    def weights(self) -> int:
        """The same with the classifier."""
        return self.encoder_weights + self.bits * self.classes

    @property
    def encode_flops(self) -> float:
        """For one row: one product per layer."""
        return 2.0 * self.encoder_weights

    @property
    def step_flops(self) -> float:
        """For one row of a training step: three products per layer."""
        return 3 * self.encode_flops

    def __str__(self) -> str:
        return f"{self.layers} x {self.width}"


def reduced_bytes(network: Network) -> int:
    """What all workers sum in a step: weights, and a small vector.

    The vector has per layer the sums of its line search (at most 4 numbers),
    and the few of the metrics.
    """
    return FLOAT * (network.weights + 4 * network.layers + 8)


def ring_seconds(
    size: float, workers: int, gbit: float, assumed: Assumptions
) -> float:
    """Time of a ring all-reduce: 2 (n - 1) / n of the bytes over each link."""
    if workers < 2:
        return 0.0
    rate = gbit * 1e9 / 8 * assumed.network_share
    rounds = 2 * (workers - 1)
    return rounds / workers * size / rate + rounds * assumed.latency


@dataclasses.dataclass(frozen=True)
class Training:
    """One epoch on several workers.

    Attributes:
        compute, reduce: seconds of a step.
        hours: of the epoch, nothing of the two at the same time.
        efficiency: share of the time that computes.
        worker_hours: of all workers.
    """

    compute: float
    reduce: float
    hours: float
    efficiency: float
    worker_hours: float


def training(
    network: Network,
    rows: float,
    workers: int,
    batch: int,
    flops: float,
    gbit: float,
    assumed: Assumptions,
) -> Training:
    """An epoch over `rows`, `batch` of them per worker and step.

    Args:
        network, rows, workers, batch: what is trained.
        flops: that a worker reaches in a step.
        gbit: Gbit/s of the line between workers.
        assumed: prices and the network.
    """
    compute = batch * network.step_flops / flops
    reduce = ring_seconds(reduced_bytes(network), workers, gbit, assumed)
    hours = rows / (batch * workers) * (compute + reduce) / 3600
    return Training(
        compute, reduce, hours, compute / (compute + reduce), hours * workers
    )


def encode_seconds(network: Network, flops: float, overhead: float) -> float:
    """Seconds of one row on one core: products, and the rest of its way."""
    return network.encode_flops / flops + overhead


def index_bytes(kind: str, count: float, bits: int) -> float:
    """Size of an index whose ids are given, on disk or in memory."""
    code = (bits + 7) // 8
    if kind == "flat":
        return count * (code + ID)
    if kind == "hash":
        return count * (code + ID) + ID * (1 << prefix(count, bits))
    if kind == "ivf":
        # Codes, ids and places, and each code again in its cell.
        return count * (code + ID + ID + code + ID)
    if kind == "hnsw":
        # The graph has 270 bytes per distinct code, if all are distinct.
        return count * (code + ID + ID + 270)
    raise ValueError(f"There is no such kind of index: {kind!r}.")


def prefix(count: float, bits: int) -> int:
    """Bits that make a bucket of a mapped "hash" index."""
    return buckets.prefix_of(int(count), bits)


def candidates(count: float, bits: int, radius: int = 2) -> float:
    """Codes that a mapped "hash" index looks at, if they spread evenly."""
    first = prefix(count, bits)
    visited = sum(math.comb(first, flips) for flips in range(radius + 1))
    return visited * count / (1 << first)


def probed_bytes(count: float, bits: int) -> float:
    """Bytes of codes that an "ivf" index looks at."""
    cells = min(math.isqrt(int(count)), structures.InvertedFile.MOST_CELLS)
    share = min(1.0, 8 / max(1, cells))
    return count * ((bits + 7) // 8) * share


@dataclasses.dataclass(frozen=True)
class Rates:
    """What one machine reaches in a search.

    Attributes:
        scan: bytes of codes per second of a "flat" scan, on `cores` cores.
        cores: of the machine that was measured.
        bucket_start: seconds of a "hash" query that finds nothing.
        bucket_code: seconds for each code that it looks at.
        probe: bytes of codes per second of "ivf", on one core.
    """

    scan: float
    cores: int
    bucket_start: float
    bucket_code: float
    probe: float


def query_seconds(
    kind: str,
    count: float,
    bits: int,
    shards: int,
    rates: Rates,
    assumed: Assumptions,
) -> float:
    """One query that is asked of all shards at once.

    Args:
        kind: "flat", "hash" or "ivf".
        count, bits: of all shards together.
        shards: machines, each with an equal part.
        rates: of one machine.
        assumed: latency.
    """
    part = count / shards
    if kind == "flat":
        own = part * ((bits + 7) // 8) / rates.scan
    elif kind == "hash":
        own = rates.bucket_start + rates.bucket_code * candidates(part, bits)
    else:
        own = probed_bytes(part, bits) / rates.probe
    return own + (2 * assumed.latency if shards > 1 else 0.0)
