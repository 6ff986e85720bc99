"""Measures what `fit` alone gives: no callback, no preset.

    python tools/benchmarks/fit.py --data=mnist --data_dir=/path/to/tfds
    python tools/benchmarks/fit.py --data=npz --path=features.npz --width=512
    python tools/benchmarks/fit.py --data=npz --path=table.npz --layers=4 \\
        --epochs=100 --against=sdh --standardized
    python tools/benchmarks/fit.py --data=npz --path=features.npz \\
        --train_per_class=500 --against=class_id,cca_itq,sdh,itq,lsh,backprop
    python tools/benchmarks/fit.py ... --unseen_classes=7,8,9 --against=...

Trains `VDSH(layers=L, width=D, bits=K, num_classes=C).compile(); fit(x, y,
epochs=E)` for each depth and seed, and prints means over the seeds: by the
paper's protocol, or among items that were never trained on (--train_per_class,
--unseen_classes). --against names methods of `vdsh_tf.research.baselines` for
the very same splits, on the features as they come and with --standardized also
with mean 0 and variance 1 per column. Settings of recipe and solver are flags;
without any it is `fit` as it comes. With --validation_per_class everything is
measured on rows held out of the training part, by the same protocol. About a
minute per run for MNIST on two cores.
"""

import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from vdsh_tf import files
from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import SWITCH
from vdsh_tf.config import Solver
from vdsh_tf.config import setting
from vdsh_tf.recipes import Recipe
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold
from vdsh_tf.training.config import Source

KEYS = ("map", "precision_r2", "recall_r2", "ndcg_100", "cosine", "seconds")
# Rivals by back-propagation, at the depth and rate that did best on validation
# rows of MNIST.
RIVALS = {"backprop": {"layers": 8, "learning_rate": 2e-3}}


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
    jit_compile: bool = setting(False, SWITCH, "Whether XLA compiles steps.")
    standardized: bool = setting(
        False, SWITCH, "These once more on standardised features."
    )
    out: str = setting(
        "runs/fit", ANY, "Folder for the numbers.", flag=flags.FOLDER
    )
    source: Source = Source()
    recipe: Recipe = Recipe()
    solver: Solver = Solver()


def benchmark(args: Args) -> None:
    """Trains and measures everything; prints means."""
    from vdsh_tf.training import trainer
    from vdsh_tf.training.config import TrainingConfig

    found: dict[str, list[dict]] = {}
    for seed in args.seeds:
        # Who holds rows out wants to choose by them.
        chosen = args.source.on_validation or args.source.validation_per_class
        config = TrainingConfig(source=args.source).replace(
            seed=seed, on_validation=bool(chosen)
        )
        split = trainer.load_data(config)
        for name, measure in methods(args, seed):
            result = measure(split)
            found.setdefault(name, []).append(result)
            shown = ", ".join(
                f"{k} {result[k]:.4g}" for k in KEYS if k in result
            )
            logging.info("%s, seed %d: %s", name, seed, shown)
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, f"{split.name}-{split.protocol}.json")
    files.write_json(path, found)
    report(found)
    print(f"wrote {path}")


def methods(args: Args, seed: int):
    """Names, and functions from a split to metrics."""
    for layers in args.layers:
        name = f"VDSH, {layers} layers"
        yield name, lambda split, n=layers: fit_alone(args, n, seed, split)
    yield "raw features, cosine", raw_cosine
    for rival in args.against:
        for scaled in (False, True) if args.standardized else (False,):
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
    from vdsh_tf.evaluation import splits
    from vdsh_tf.training import trainer

    keras.utils.set_random_seed(seed)
    model = VDSH(
        layers=layers,
        width=args.width,
        bits=args.bits,
        num_classes=split.num_classes,
        seed=seed,
        solver=args.solver,
    )
    model.compile(recipe=args.recipe, jit_compile=args.jit_compile)
    start = time.perf_counter()
    model.fit(split.train.x, split.train.y, epochs=args.epochs, verbose=0)
    seconds = time.perf_counter() - start
    keras.backend.clear_session()
    result = trainer.evaluate(model, split)
    bound = splits.evaluate_cosine(
        lambda x: model.predict(x, batch_size=1024, verbose=0), split
    )
    result["cosine"] = bound["map"]
    return {**result, "seconds": seconds}


def fit_rival(args: Args, name: str, seed: int, split, scaled: bool) -> dict:
    """Metrics of another method on the same split."""
    import numpy as np

    from vdsh_tf.evaluation import splits
    from vdsh_tf.research.baselines import registry

    mean, deviation = np.zeros(1), np.ones(1)
    if scaled:
        mean, deviation = split.train.x.mean(axis=0), split.train.x.std(axis=0)
        deviation = np.where(deviation == 0, 1, deviation)
    method = registry.make(name, args.bits, seed, **RIVALS.get(name, {}))
    start = time.perf_counter()
    method.fit((split.train.x - mean) / deviation, split.train.y)
    seconds = time.perf_counter() - start
    result, _ = splits.evaluate(
        lambda x: method.encode((x - mean) / deviation), split, args.bits
    )
    return {**result, "seconds": seconds}


def raw_cosine(split) -> dict:
    """The bound without any code: the features as they come, by cosine."""
    from vdsh_tf.evaluation import splits

    start = time.perf_counter()
    found = splits.evaluate_cosine(lambda x: x, split)
    return {**found, "seconds": time.perf_counter() - start}


def report(found: dict[str, list[dict]]) -> None:
    """Prints the means over the seeds."""
    first = next(iter(found.values()))[0]
    print(f"\nprotocol {first['protocol']}")
    print(
        f"{'':24} {'mAP':>7} {'trained':>7} {'P@r2':>7} {'R@r2':>7} "
        f"{'NDCG':>7} {'cosine':>7} {'s':>5}"
    )
    for name, results in found.items():
        for result in results:
            result["trained_map"] = result.get("trained", {}).get("map")
        keys = ("map", "trained_map", *KEYS[1:-1])
        cells = " ".join(f"{mean_of(results, key):>7}" for key in keys)
        seconds = statistics.mean(r["seconds"] for r in results)
        print(f"{name:24} {cells} {seconds:5.0f}")
    print(
        "trained: mAP in what was trained on, where mAP is in items that were "
        "not; cosine: mAP of the embedding before it is cut to bits."
    )


def mean_of(results: list[dict], key: str) -> str:
    """The mean over seeds, or a dash."""
    values = [r[key] for r in results if r.get(key) is not None]
    if len(values) < len(results):
        return "-"
    return f"{statistics.mean(values):.4f}"


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(benchmark, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
