"""Trains a preset at several code lengths and seeds; prints means.

    python tools/sweep.py --preset=mnist --data_dir=/path/to/tfds
    python tools/sweep.py --preset=cifar10_cnn --path=features.npz \\
        --against=sdh

Each run has its own directory below --out, and each comparison its own JSON
file; what is finished is not computed again. A seed chooses the split, the
starting weights and the order of the data. --against names methods of
`vdsh_tf.research.baselines` to fit on the very same splits.
"""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence

from absl import logging

from vdsh_tf import files
from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import Rule
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold
from vdsh_tf.tools import training_flags
from vdsh_tf.training import presets
from vdsh_tf.training.config import TrainingConfig

_SOME = Rule("one integer or more", "or nothing is trained", bool)
KEYS = ("map", "precision_r2", "recall_r2", "train_seconds")


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    preset: str = setting(
        "mnist",
        ANY,
        f"Settings to train with: {training_flags.NAMES}.",
        flag=flags.NAME,
    )
    bits: tuple[int, ...] = setting(
        (16, 32, 64, 128), _SOME, "Code lengths.", flag=flags.INTEGERS
    )
    seeds: tuple[int, ...] = setting(
        (0, 1, 2), _SOME, "Seeds.", flag=flags.INTEGERS
    )
    against: tuple[str, ...] = setting(
        (), ANY, "Methods to compare with, such as sdh.", flag=flags.TEXTS
    )
    data: str | None = setting(None, ANY, "Other data than the preset's.")
    data_dir: str | None = setting(
        None, ANY, "Prepared tensorflow-datasets folder."
    )
    path: str | None = setting(None, ANY, "Features file of an npz preset.")
    queries_per_class: int | None = setting(
        None, COUNT, "Another number of queries."
    )
    train_per_class: int | None = setting(
        None, COUNT, "Rows of each class to train on; others are searched in."
    )
    unseen_classes: str | None = setting(
        None, ANY, "Classes that are not trained on, such as 7,8,9."
    )
    validation_per_class: int | None = setting(
        None,
        COUNT,
        "Measure on this many rows of each class, held out of the training "
        "part, in the queries' place, to choose settings by.",
    )
    out: str = setting(
        "runs/sweep", ANY, "Folder for the runs.", flag=flags.FOLDER
    )
    name: str | None = setting(
        None, ANY, "Name of the runs; default the preset's."
    )

    def config(self, seed: int) -> TrainingConfig:
        """Settings of one seed's runs, apart from their length of codes."""
        base = presets.get(self.preset)
        return base.replace(
            seed=seed,
            data=self.data or base.source.data,
            data_dir=self.data_dir,
            path=self.path,
            queries_per_class=self.queries_per_class,
            train_per_class=self.train_per_class,
            unseen_classes=self.unseen_classes,
            validation_per_class=self.validation_per_class or 0,
            on_validation=self.validation_per_class is not None,
        )


def train(out: str, config: TrainingConfig, split, name: str) -> dict:
    """Metrics of one run: read, resumed, or trained from the start."""
    from vdsh_tf.training import provenance
    from vdsh_tf.training import runs
    from vdsh_tf.training import trainer

    path = os.path.join(out, name)
    if os.path.isdir(path):
        directory = runs.RunDirectory.open(path)
        check_same(directory, config)
        provenance.check_data(directory, split)
    else:
        directory = runs.RunDirectory.create(path, config)
    if not directory.finished:
        trainer.train(directory, split, verbose=0)
    return directory.read_json("metrics.json")


def check_same(directory, config: TrainingConfig) -> None:
    """Refuses a run that was trained with other settings."""
    bare = training_flags.apart_from_place
    if bare(directory.config) != bare(config):
        raise ValueError(
            f"{directory.path} must have the settings of this sweep, or its "
            "numbers are those of another one; its config.json has others. "
            "Give another --out or --name, or remove it."
        )


def compare(
    out: str, method: str, bits: int, seed: int, split, name: str
) -> dict:
    """Metrics of another method on the same split: read or computed."""
    from vdsh_tf.evaluation import splits
    from vdsh_tf.research.baselines import registry
    from vdsh_tf.training import provenance

    path = os.path.join(out, f"{name}.json")
    data = provenance.digest(split)
    if os.path.isfile(path):
        return read_comparison(path, data)
    fitted = registry.make(method, bits, seed)
    start = time.perf_counter()
    fitted.fit(split.train.x, split.train.y)
    seconds = time.perf_counter() - start
    result, _ = splits.evaluate(fitted.encode, split, bits)
    result["train_seconds"] = seconds
    result["data_sha256"] = data
    files.write_text(path, json.dumps(result, indent=2) + "\n")
    return result


def read_comparison(path: str, data: str) -> dict:
    """An earlier comparison, refused unless it was made on the same data."""
    try:
        with open(path) as f:
            found = json.load(f)
        same = found["data_sha256"] == data and set(KEYS) <= set(found)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} must be a comparison that this tool wrote for the same "
            f"data; it is none. Remove it. Cause: {error!r}"
        ) from error
    if not same:
        raise ValueError(
            f"{path} must be about the data of this sweep, or its numbers are "
            "those of another one; it has other rows or another split. Give "
            "another --out or --name, or remove it."
        )
    return found


def measure(args: Args) -> dict:
    """Metrics by (method, bits), a list over seeds."""
    from vdsh_tf.research.baselines import registry
    from vdsh_tf.training import trainer

    found: dict[tuple[str, int], list[dict]] = {}
    for method in args.against:
        registry.load(method)  # An unknown name must show before training.
    stem = args.name or args.preset
    for seed in args.seeds:
        config = args.config(seed)
        split = trainer.load_data(config)
        for bits in args.bits:
            name = f"{stem}-{bits}bits-seed{seed}"
            result = train(args.out, config.replace(bits=bits), split, name)
            report(f"{name} vdsh", result)
            found.setdefault(("vdsh", bits), []).append(result)
            for method in args.against:
                other = f"{stem}-{method}-{bits}bits-seed{seed}"
                result = compare(args.out, method, bits, seed, split, other)
                report(other, result)
                found.setdefault((method, bits), []).append(result)
    return found


def report(name: str, result: dict) -> None:
    """Logs one finished run."""
    logging.info(
        "%s: %s", name, ", ".join(f"{k} {result[k]:.4g}" for k in KEYS)
    )


def sweep(args: Args) -> None:
    """Measures everything and prints means and deviations."""
    import numpy as np

    os.makedirs(args.out, exist_ok=True)
    found = measure(args)
    seeds = ",".join(map(str, args.seeds))
    print(f"\nmean (standard deviation) over seeds {seeds}")
    first = next(iter(found.values()))[0]
    second = "trained" in first
    where = "items never trained on" if second else "what was trained on"
    # Runs of 0.1.0 know no other protocol than the paper's.
    print(f"protocol {first.get('protocol', 'paper')}: among {where}")
    titles = ["mAP", "P@r2", "R@r2", *(["trained on"] if second else [])]
    heads = " ".join(f"{title:14}" for title in titles)
    print(f"{'method':14} {'bits':>4}  {heads} s")
    for (method, bits), results in sorted(found.items()):
        columns = [[r[key] for r in results] for key in KEYS[:3]]
        if second:
            columns.append([r["trained"]["map"] for r in results])
        cells = [f"{np.mean(c):.4f} ({np.std(c):.3f})" for c in columns]
        seconds = np.mean([r["train_seconds"] for r in results])
        print(f"{method:14} {bits:4}  {' '.join(cells)} {seconds:.0f}")


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(
        sweep,
        Args,
        __doc__,
        argv,
        interrupted="finished runs and epochs are kept. The same command goes "
        "on there",
    )


if __name__ == "__main__":
    sys.exit(main())
