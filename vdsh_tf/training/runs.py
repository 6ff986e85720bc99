"""Run directories: what a training run leaves on disk, written atomically.

config.json       all settings (`TrainingConfig`)
data.json         name, shape, classes and SHA-256 of the data
model.keras       the trained model
history.csv       one row per epoch
metrics.json      retrieval quality on the queries; its presence says that
                  the run is finished
convergence.png   residual and dual of every layer
curves.json       precision and recall over rank and radius, and their
curves.png        picture (`tools/evaluate.py`)
codes.npy         codes of the database (`tools/encode.py`)
index.npz         their index (`tools/index.py`)
tensorboard/      the same for TensorBoard
checkpoints/      a whole epoch to resume from, while training
"""

import csv
import glob
import json
import os
import re
import shutil
from typing import TYPE_CHECKING

from vdsh_tf import files
from vdsh_tf.config import is_count
from vdsh_tf.training import model_files
from vdsh_tf.training.config import TrainingConfig

if TYPE_CHECKING:
    from vdsh_tf.model import VDSH

ROOT = "runs"

# Version 0.1.0 did not write data.json.
_IMAGE_SHAPES_OF_0_1 = {
    "digits": (8, 8, 1),
    "mnist": (28, 28, 1),
    "fashion_mnist": (28, 28, 1),
    "cifar10": (32, 32, 3),
}

_ROWS = (
    ("mAP (tie-aware, whole database)", "map"),
    ("precision, radius 0", "precision_r0"),
    ("precision, radius 1", "precision_r1"),
    ("precision, radius 2", "precision_r2"),
    ("recall, radius 0", "recall_r0"),
    ("recall, radius 1", "recall_r1"),
    ("recall, radius 2", "recall_r2"),
    ("empty balls, radius 2", "empty_r2"),
    ("distinct codes", "distinct_codes"),
    ("balance of bits", "bit_balance"),
)


def results_table(result: dict) -> str:
    """Retrieval metrics as lines to read."""
    lines = []
    for title, key in _ROWS:
        value = result[key]
        shown = f"{value:d}" if isinstance(value, int) else f"{value:.4f}"
        lines.append(f"  {title:32} {shown:>8}")
    if "trained" in result:
        protocol, other = result["protocol"], result["trained"]["map"]
        lines.insert(0, f"  protocol {protocol}: among items never trained on")
        lines.insert(2, f"  {'mAP among those trained on':32} {other:8.4f}")
    held_out, trained = result.get("held_out", {}).values() or (None, None)
    if held_out not in (None, result["map"]):
        lines += [
            f"  {'mAP of validation, held-out rows':32} {held_out:8.4f}",
            f"  {'mAP of validation, trained rows':32} {trained:8.4f}",
        ]
    if "database" in result:
        share = result["distinct_codes"] / result["database"]
        lines.append(f"  {'share of distinct codes':32} {share:8.4f}")
    return "\n".join(lines)


def save_model(model: "VDSH", path: str) -> None:
    """Writes a `.keras` file atomically."""
    with files.replacing(path) as partial:
        model.save(partial)


def load_model(path: str) -> "VDSH":
    """Reads a model that `save_model` or `VDSH.save` wrote."""
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There must be a model at {path}; it appears when training is "
            "finished. Train first, or name another run."
        )
    # TensorFlow is imported where a model is needed, not with the directory.
    import keras

    from vdsh_tf.model import VDSH

    try:
        model_files.check(path)
        model = keras.saving.load_model(path)
    except Exception as error:
        raise ValueError(
            f"{path} must be a whole .keras file of a VDSH model, but it "
            "cannot be read: it is damaged or from another version. Train "
            f"anew. Cause: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(model, VDSH):
        raise ValueError(
            f"{path} must hold a VDSH model. Received: {type(model).__name__}."
        )
    model.encoder.check_finite()
    return model


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: str):
        self.path = path

    @classmethod
    def create(cls, path: str, config: TrainingConfig) -> "RunDirectory":
        """Makes a new run directory; never touches an existing one."""
        try:
            os.makedirs(path)
        except FileExistsError as error:
            # One that was killed here has left nothing to keep.
            if not os.path.isdir(path) or _has_content(path):
                raise FileExistsError(
                    f"The run directory must be new, or a finished run would "
                    f"be overwritten. Received: {path}, which exists. Give "
                    "another --run_dir, remove it, or continue it with "
                    "--resume."
                ) from error
        directory = cls(path)
        directory.write_json("config.json", config.to_json())
        return directory

    @classmethod
    def open(cls, path: str) -> "RunDirectory":
        """Opens an existing run directory."""
        if not os.path.isfile(os.path.join(path, "config.json")):
            raise FileNotFoundError(
                f"A run directory with config.json must exist. Received: "
                f"{path}. Train first, or name another run."
            )
        return cls(path)

    def file(self, *names: str) -> str:
        return os.path.join(self.path, *names)

    def write_json(self, name: str, data) -> None:
        files.write_json(self.file(name), data)

    def read_json(self, name: str) -> dict:
        path = self.file(name)
        try:
            with open(path) as f:
                found = json.load(f)
        # JSON that is broken, no text, or nested without end.
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path} must be JSON, but is damaged: {error}. Train anew."
            ) from error
        if not isinstance(found, dict):
            raise ValueError(
                f"{path} must be a JSON object, but is damaged. Received: "
                f"{type(found).__name__}. Train anew."
            )
        return found

    @property
    def config(self) -> TrainingConfig:
        found = self.read_json("config.json")
        try:
            return TrainingConfig.from_json(found)
        except ValueError as error:
            raise ValueError(
                f"{self.file('config.json')} must hold the settings of a "
                f"training run. {error} Train anew."
            ) from error

    @property
    def data(self) -> dict:
        """What is known of the data; empty for a run of version 0.1.0."""
        if not os.path.isfile(self.file("data.json")):
            return {}
        return self.read_json("data.json")

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """Shape of one item of a run on pictures, else None."""
        if not (data := self.data):
            return _IMAGE_SHAPES_OF_0_1.get(self.config.source.data)
        shape = data.get("image_shape")
        if shape is None:
            return None
        sides = isinstance(shape, list) and len(shape) == 3
        if not sides or not all(map(is_count, shape)):
            raise ValueError(
                f"{self.file('data.json')} must have three sizes as "
                "`image_shape`, or null, but is damaged. Received: "
                f"{shape!r:.80}. Train anew."
            )
        height, width, channels = shape
        return height, width, channels

    @property
    def finished(self) -> bool:
        return os.path.isfile(self.file("metrics.json"))

    def read_history(self) -> list[dict[str, str]]:
        path = self.file("history.csv")
        if not os.path.isfile(path):
            return []
        try:
            with open(path, newline="") as f:
                rows = list(csv.DictReader(f))
            for row in rows:
                float(row["seconds"])
        except (csv.Error, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} must have one row per epoch, with its seconds, but "
                f"is damaged. Train anew. Cause: {error!r}"
            ) from error
        return rows

    def write_history(self, rows: list[dict]) -> None:
        """Writes one row per epoch; columns are the union of all rows'."""
        names = list(dict.fromkeys(key for row in rows for key in row))
        lines = [names, *[[row.get(n, "") for n in names] for row in rows]]
        path = self.file("history.csv")
        with files.replacing(path) as new, open(new, "w", newline="") as f:
            csv.writer(f).writerows(lines)

    def save_checkpoint(self, model: "VDSH", epochs_done: int) -> None:
        """Keeps the state after an epoch, and removes older ones."""
        stem = self.save_state(model, epochs_done)
        save_model(model, f"{stem}.keras")
        for old in glob.glob(self.file("checkpoints", "epoch_*")):
            if not os.path.basename(old).startswith(os.path.basename(stem)):
                os.remove(old)

    def save_state(self, model: "VDSH", epochs_done: int) -> str:
        """Keeps what this process has of the full schedule's state.

        Returns:
            The checkpoint's path without ending.
        """
        os.makedirs(self.file("checkpoints"), exist_ok=True)
        stem = self.file("checkpoints", f"epoch_{epochs_done:05d}")
        for path, store in _states(model, stem):
            store.save(path)
        return stem

    def last_checkpoint(self) -> tuple[str, int] | None:
        """Path without ending, and number of epochs done; None if none."""
        found = sorted(glob.glob(self.file("checkpoints", "epoch_?????.keras")))
        if not found:
            return None
        stem = found[-1].removesuffix(".keras")
        return stem, int(stem[-5:])

    def remove_checkpoints(self) -> None:
        shutil.rmtree(self.file("checkpoints"), ignore_errors=True)


def _has_content(path):
    """Whether a folder holds anything but a config that was not finished."""
    return any(
        not name.startswith(".config.partial-") for name in os.listdir(path)
    )


def load_state(model: "VDSH", stem: str) -> None:
    """Reads what `save_state` of as many workers wrote."""
    for path, store in _states(model, stem):
        if not os.path.isfile(path):
            raise FileNotFoundError(
                "The full schedule must resume with as many workers as it was "
                f"begun with, which have its state in parts; there is no "
                f"{path}."
            )
        store.load(path)


def _states(model, stem):
    """Files and stores of the full schedule; nothing for the other one."""
    if model.store is None:
        return []
    stores, replicas = model.algorithm.stores, model.replicas
    if replicas is None:
        return [(f"{stem}.npz", stores[0])]
    return [
        (f"{stem}.{number}-of-{replicas.count}.npz", store)
        for number, store in zip(replicas.local, stores, strict=True)
    ]


def new_path(root: str, name: str) -> str:
    """The next free `root/name-NNN`."""
    taken = glob.glob(os.path.join(root, f"{glob.escape(name)}-[0-9]*"))
    found = (re.search(r"(\d+)$", path) for path in taken)
    numbers = [int(match[1]) for match in found if match]
    return os.path.join(root, f"{name}-{max(numbers, default=0) + 1:03d}")


def newest(root: str, finished: bool | None = True) -> RunDirectory:
    """The run begun last under `root`; `finished=None` takes any."""
    configs = glob.glob(os.path.join(root, "*", "config.json"))
    found = [RunDirectory(os.path.dirname(path)) for path in configs]
    if finished is not None:
        found = [run for run in found if run.finished == finished]
    if not found:
        kind = {True: "finished ", False: "unfinished ", None: ""}[finished]
        raise FileNotFoundError(
            f"There must be a {kind}run under {root!r}; there is none. Train "
            "one with `python tools/train.py`, or name one with --run_dir."
        )
    return max(
        found, key=lambda run: os.stat(run.file("config.json")).st_mtime_ns
    )


def select(path: str | None, root: str = ROOT) -> RunDirectory:
    """The run at `path`, or the newest finished one."""
    return RunDirectory.open(path) if path else newest(root)
