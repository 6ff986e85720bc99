"""Measures what `fit` alone gives: no callback, no preset, no setting.

    python tools/benchmarks/fit.py --data=mnist --data_dir=/path/to/tfds
    python tools/benchmarks/fit.py --data=npz --path=features.npz --width=512
    python tools/benchmarks/fit.py --data=npz --path=table.npz --layers=4 \\
        --epochs=100 --against=sdh

Trains `VDSH(layers=L, width=D, bits=K, num_classes=C).compile(); fit(x, y,
epochs=E)` for each depth and seed, by the paper's protocol, and prints mAP,
P@r2 and R@r2 as means over the seeds. --against names methods of
`vdsh_tf.research.baselines` for the very same splits, on the features as they
come and, as NAME (standardized), with mean 0 and variance 1 per column. About a
minute per run for MNIST on two cores.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from vdsh_tf import files
from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold
from vdsh_tf.training.config import Source

KEYS = ("map", "precision_r2", "recall_r2", "seconds")


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    FIRST: ClassVar[tuple[str, ...]] = ("data", "path", "data_dir", "layers")

    layers: tuple[int, ...] = setting(
        (4, 8, 16, 48), ANY, "Depths.", flag=flags.INTEGERS
    )
    width: int = setting(256, COUNT, "Units of a hidden layer.")
    bits: int = setting(64, COUNT, "Code length K.")
    epochs: int = setting(10, COUNT, "Epochs.")
    seeds: tuple[int, ...] = setting(
        (0, 1, 2), ANY, "Seeds, also of the split.", flag=flags.INTEGERS
    )
    against: tuple[str, ...] = setting(
        (), ANY, "Methods to compare with, such as sdh.", flag=flags.TEXTS
    )
    out: str = setting(
        "runs/fit", ANY, "Folder for the numbers.", flag=flags.FOLDER
    )
    source: Source = Source()


def benchmark(args: Args) -> None:
    """Trains and measures everything; prints means."""
    from vdsh_tf.training import trainer
    from vdsh_tf.training.config import TrainingConfig

    found: dict[str, list[dict]] = {}
    for seed in args.seeds:
        config = TrainingConfig(source=args.source).replace(seed=seed)
        split = trainer.load_data(config)
        for name, measure in methods(args, seed):
            result = measure(split)
            found.setdefault(name, []).append(result)
            shown = ", ".join(f"{k} {result[k]:.4g}" for k in KEYS)
            logging.info("%s, seed %d: %s", name, seed, shown)
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, f"{split.name}.json")
    files.write_json(path, found)
    report(found)
    print(f"wrote {path}")


def methods(args: Args, seed: int):
    """Names, and functions from a split to metrics."""
    for layers in args.layers:
        name = f"VDSH, {layers} layers"
        yield name, lambda split, n=layers: fit_alone(args, n, seed, split)
    for rival in args.against:
        for scaled in (False, True):
            name = f"{rival} (standardized)" if scaled else rival
            yield (
                name,
                lambda split, r=rival, s=scaled: fit_rival(
                    args, r, seed, split, s
                ),
            )


def fit_alone(args: Args, layers: int, seed: int, split) -> dict:
    """What a user types, and its metrics."""
    import keras

    from vdsh_tf import VDSH
    from vdsh_tf.training import trainer

    keras.utils.set_random_seed(seed)
    model = VDSH(
        layers=layers,
        width=args.width,
        bits=args.bits,
        num_classes=split.num_classes,
        seed=seed,
    )
    model.compile()
    start = time.perf_counter()
    model.fit(split.train.x, split.train.y, epochs=args.epochs, verbose=0)
    seconds = time.perf_counter() - start
    keras.backend.clear_session()
    return {**trainer.evaluate(model, split), "seconds": seconds}


def fit_rival(args: Args, name: str, seed: int, split, scaled: bool) -> dict:
    """Metrics of another method on the same split."""
    from vdsh_tf.evaluation import metrics
    from vdsh_tf.research.baselines import registry

    train, query, database = split.train.x, split.query.x, split.database.x
    if scaled:
        mean, deviation = train.mean(axis=0), train.std(axis=0)
        deviation[deviation == 0] = 1
        train, query, database = (
            (x - mean) / deviation for x in (train, query, database)
        )
    method = registry.make(name, args.bits, seed)
    start = time.perf_counter()
    method.fit(train, split.train.y)
    seconds = time.perf_counter() - start
    result = metrics.evaluate(
        method.encode(query),
        split.query.y,
        method.encode(database),
        split.database.y,
        args.bits,
    )
    return {**result, "seconds": seconds}


def report(found: dict[str, list[dict]]) -> None:
    """Prints the means over the seeds."""
    print(f"\n{'':24} {'mAP':>6} {'P@r2':>6} {'R@r2':>6} {'s':>6}")
    for name, results in found.items():
        means = [sum(r[k] for r in results) / len(results) for k in KEYS]
        *quality, seconds = means
        cells = " ".join(f"{value:6.4f}" for value in quality)
        print(f"{name:24} {cells} {seconds:6.0f}")


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(benchmark, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
