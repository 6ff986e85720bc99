"""Plans for a billion items from what is measured here.

    python tools/benchmarks/capacity.py
    python tools/benchmarks/capacity.py --items=1e10 --core_price=0.03

Measures the rates of this machine, compares what the model foretells with a
measurement at another size, and prints the tables of docs/scaling.md. Prices,
network and GPU are assumptions, each a flag. Three minutes on two cores.
"""

import dataclasses
import sys
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import POSITIVE
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    items: float = setting(1e9, POSITIVE, "Items to encode and search.")
    rows: float = setting(1e8, POSITIVE, "Labelled rows to train on.")
    epochs: int = setting(10, COUNT, "Epochs of a training run.")
    batch: int = setting(1024, COUNT, "Rows of a worker's step.")
    bits: int = setting(64, COUNT, "Length of a code; a multiple of 64.")
    codes: int = setting(4_000_000, COUNT, "Codes to measure searches on.")
    repeats: int = setting(7, COUNT, "Turns of each measurement.")
    latency: float = setting(50e-6, POSITIVE, "Seconds of a message.")
    network_share: float = setting(0.8, POSITIVE, "Of the line's rate.")
    core_price: float = setting(0.05, POSITIVE, "Of a core for an hour.")
    memory_price: float = setting(0.005, POSITIVE, "Of a GB for an hour.")
    memory_per_core: float = setting(4.0, POSITIVE, "GB that a core has.")
    disk_price: float = setting(0.08, POSITIVE, "Of a GB for a month.")
    gpu_price: float = setting(2.0, POSITIVE, "Of a GPU for an hour.")
    gpu_flops: float = setting(10e12, POSITIVE, "Of a step on a GPU.")
    out: str | None = setting(None, ANY, "JSON file.", flag=flags.FILE)


def measure(args: Args):
    """Rates of this machine, and checks of the model."""
    from vdsh_tf.research.capacity import measures
    from vdsh_tf.research.capacity import plan

    rates, checks = measures.search(args.codes, args.bits, args.repeats)
    encode_flops, overhead, encoded = measures.encoding(args.repeats)
    step_flops, trained = measures.training(args.repeats)
    checks += [encoded, trained, measures.reduced()]
    got = plan.Measured(encode_flops, overhead, step_flops, rates.cores, rates)
    return got, checks


def report(args: Args) -> None:
    """Measures, and prints checks and tables."""
    from vdsh_tf import files
    from vdsh_tf.research.capacity import model
    from vdsh_tf.research.capacity import plan

    if args.bits % 64:
        raise ValueError(
            f"--bits must be a multiple of 64 here. Received: {args.bits}."
        )
    names = {field.name for field in dataclasses.fields(model.Assumptions)}
    given = dataclasses.asdict(args)
    assumed = model.Assumptions(**{name: given[name] for name in names})
    got, checks = measure(args)
    print("Measured:")
    print(
        f"  encoder, one core: {got.encode_flops / 1e9:.1f} Gflop/s and "
        f"{1e6 * got.encode_overhead:.2f} us per row"
    )
    print(
        f"  training step, {got.cores} cores: {got.step_flops / 1e9:.1f} "
        "Gflop/s"
    )
    print(f"  flat scan, {got.cores} cores: {got.rates.scan / 1e9:.2f} GB/s")
    print(
        f"  hash: {1e3 * got.rates.bucket_start:.3f} ms and "
        f"{1e9 * got.rates.bucket_code:.1f} ns per code looked at"
    )
    print(f"  ivf, one core: {got.rates.probe / 1e9:.2f} GB/s")
    print(f"Assumed: {assumed}\n")
    rows: list[tuple[str, ...]] = [
        (c.what, f"{c.measured:.4g}", f"{c.foretold:.4g}", f"{c.error:+.0%}")
        for c in checks
    ]
    head = ("check", "measured", "model", "error")
    tables = (
        plan.Table("The model at sizes it was not made from", head, rows),
        plan.training(args.rows, args.epochs, args.batch, got, assumed),
        plan.encoding(args.items, got, assumed),
        plan.searching(args.items, args.bits, got, assumed),
    )
    for table in tables:
        print(f"{table}\n")
    if args.out:
        content = {
            "assumed": dataclasses.asdict(assumed),
            "measured": {
                **got._asdict(),
                "rates": dataclasses.asdict(got.rates),
            },
            "checks": [check._asdict() for check in checks],
        }
        files.write_json(args.out, content)


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(report, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
