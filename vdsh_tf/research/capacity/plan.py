"""The plan for a billion items, as tables of text."""

from collections.abc import Iterable
from typing import NamedTuple

from vdsh_tf.research.capacity import model
from vdsh_tf.research.capacity.model import Assumptions
from vdsh_tf.research.capacity.model import Network

WORKERS = 8
LINES = (10, 100)
SHARDS = (1, 4, 16, 64)
NETWORKS = (
    Network(layers=4, width=256),
    Network(layers=16, width=512),
    Network(layers=16, width=1024),
    Network(layers=48, width=1024),
)
_MONTH = 730


class Measured(NamedTuple):
    """Rates of one machine.

    Attributes:
        encode_flops, encode_overhead: of one core.
        step_flops: of a training step on all `cores`.
        cores: of this machine.
        rates: of searches.
    """

    encode_flops: float
    encode_overhead: float
    step_flops: float
    cores: int
    rates: model.Rates


class Table(NamedTuple):
    """A table of the report."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.title}\n",
                _row(self.head),
                _row("---" for _ in self.head),
                *map(_row, self.rows),
            ]
        )


def training(
    rows: float, epochs: int, batch: int, got: Measured, assumed: Assumptions
) -> Table:
    """An epoch on 8 workers: machines of 16 cores such as these, or GPUs."""
    made = []
    machines = (
        ("16 cores", got.step_flops / got.cores * 16, 16 * assumed.core_price),
        ("1 GPU", assumed.gpu_flops, assumed.gpu_price),
    )
    for network in NETWORKS[1:3]:
        for name, flops, price in machines:
            for gbit in LINES:
                run = model.training(
                    network, rows, WORKERS, batch, flops, gbit, assumed
                )
                made.append(
                    (
                        str(network),
                        name,
                        f"{gbit}",
                        f"{model.reduced_bytes(network) / 1e6:.1f}",
                        f"{1e3 * run.compute:.1f}",
                        f"{1e3 * run.reduce:.1f}",
                        f"{run.efficiency:.2f}",
                        f"{run.hours:.2g}",
                        f"{epochs * run.worker_hours * price:.0f}",
                    )
                )
    return Table(
        f"Training on {rows:.3g} rows, {WORKERS} workers, batch {batch} each",
        (
            "network",
            "worker",
            "Gbit/s",
            "MB reduced",
            "compute ms",
            "reduce ms",
            "efficiency",
            "hours per epoch",
            f"cost of {epochs} epochs",
        ),
        made,
    )


def encoding(items: float, got: Measured, assumed: Assumptions) -> Table:
    """Core-hours of all items, by encoder."""
    made = []
    for network in NETWORKS:
        each = model.encode_seconds(
            network, got.encode_flops, got.encode_overhead
        )
        hours = items * each / 3600
        made.append(
            (
                str(network),
                f"{1 / each:.0f}",
                f"{hours:.1f}",
                f"{hours / 64:.2f}",
                f"{items * network.dim * model.FLOAT / 1e9:.0f}",
                f"{hours * assumed.core_price:.2f}",
            )
        )
    return Table(
        f"Encoding {items:.3g} rows of {NETWORKS[0].dim} float32",
        (
            "encoder",
            "rows/s per core",
            "core-hours",
            "hours on 64 cores",
            "GB read",
            "cost",
        ),
        made,
    )


def searching(
    items: float, bits: int, got: Measured, assumed: Assumptions
) -> Table:
    """Size and time of a query, by kind and number of shards."""
    made = []
    for kind in ("flat", "hash", "ivf", "hnsw"):
        for shards in SHARDS:
            # Each shard has buckets of its own.
            size = shards * model.index_bytes(kind, items / shards, bits)
            time, rate = "", ""
            if kind != "hnsw":
                seconds = model.query_seconds(
                    kind, items, bits, shards, got.rates, assumed
                )
                time = f"{1e3 * seconds:.2f}"
                # A scan uses all cores of a shard, others one.
                at_once = 1 if kind == "flat" else got.rates.cores
                rate = f"{at_once / seconds:.0f}"
            price = month_price(size, shards, got.cores, assumed)
            made.append(
                (
                    kind,
                    str(shards),
                    f"{size / 1e9:.1f}",
                    f"{size / shards / 1e9:.1f}",
                    time,
                    rate,
                    f"{price:.0f}",
                )
            )
    return Table(
        f"Searching {items:.3g} codes of {bits} bits, shards of "
        f"{got.rates.cores} cores",
        (
            "kind",
            "shards",
            "GB",
            "GB per shard",
            "ms per query",
            "queries/s",
            "cost per month",
        ),
        made,
    )


def month_price(
    size: float, shards: int, cores: int, assumed: Assumptions
) -> float:
    """Of machines that hold an index in memory, and its file."""
    room = shards * cores * assumed.memory_per_core
    more = max(0.0, size / 1e9 - room)
    machines = shards * cores * assumed.core_price + more * assumed.memory_price
    return machines * _MONTH + size / 1e9 * assumed.disk_price


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
