"""Trains a run from its settings: what `tools/train.py` calls."""

import contextlib
import dataclasses
import json
import math
import time

import keras
import numpy as np
from absl import logging

from vdsh_tf import files
from vdsh_tf import optimizers
from vdsh_tf.callbacks import CollapsedError
from vdsh_tf.callbacks import LayerConvergence
from vdsh_tf.callbacks import RetrievalEvaluation
from vdsh_tf.data import datasets
from vdsh_tf.data.shards import opening
from vdsh_tf.data.training_data import TrainingData
from vdsh_tf.evaluation import advice
from vdsh_tf.evaluation import curves
from vdsh_tf.evaluation import plots
from vdsh_tf.evaluation import splits
from vdsh_tf.model import VDSH
from vdsh_tf.solver import schedules
from vdsh_tf.training import held_out
from vdsh_tf.training import provenance
from vdsh_tf.training import runs
from vdsh_tf.training import team as team_lib
from vdsh_tf.training.config import TrainingConfig
from vdsh_tf.training.team import Team

# Of the time of training, what checkpoints may take.
CHECKPOINT_SHARE = 0.02


class Stopwatch(keras.callbacks.Callback):
    """Adds up the time of epochs. List it first: evaluation is not counted.

    Args:
        seconds: time that earlier epochs of the run have taken.
    """

    def __init__(self, seconds: float = 0.0):
        super().__init__()
        self.seconds = seconds

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds += time.perf_counter() - self._start


class StateRecord(keras.callbacks.Callback):
    """Writes the part of the full schedule's state that a worker keeps."""

    def __init__(self, directory: runs.RunDirectory, team):
        super().__init__()
        self.directory = directory
        self.team = team

    def on_epoch_end(self, epoch, logs=None):
        self.directory.save_state(self.model, epoch + 1)
        # The checkpoint is there when all of its parts are.
        self.team.exchange("saved")


class EpochRecord(keras.callbacks.Callback):
    """Writes history after each epoch, and checkpoints to resume from.

    A checkpoint that takes a second to write is worth it when it saves
    1 / CHECKPOINT_SHARE seconds of work: epochs that are shorter share one.
    The first epoch and the last one always have one; so does every epoch of
    the full schedule, whose state all workers write together.
    """

    def __init__(self, directory: runs.RunDirectory, rows, stopwatch):
        super().__init__()
        self.directory = directory
        self.rows = rows
        self.stopwatch = stopwatch
        self._due = 0.0

    def on_epoch_end(self, epoch, logs=None):
        row = {"epoch": epoch + 1, "layers": self.model.encoder.depth}
        row["seconds"] = round(self.stopwatch.seconds, 3)
        row.update(logs or {})
        for name in ("residual", "dual"):
            values = getattr(self.model, f"layer_{name}").result()
            for m, value in enumerate(np.asarray(values), start=1):
                row[f"{name}_{m}"] = value
        self.rows.append(row)
        self.directory.write_history(self.rows)
        start = time.perf_counter()
        is_last = epoch + 1 == self.params["epochs"]
        if start < self._due and not is_last and self.model.store is None:
            return
        self.directory.save_checkpoint(self.model, epoch + 1)
        end = time.perf_counter()
        self._due = end + (end - start) / CHECKPOINT_SHARE


def load_data(
    config: TrainingConfig, data_dir=None, path=None
) -> datasets.Split:
    """The data set of a run, split as its settings say.

    Args:
        config: settings.
        data_dir, path: where the data is now, if it has moved.
    """
    source = config.source
    if opening.is_stored(source.data) and config.schedule == "full":
        raise ValueError(
            'schedule="full" keeps state for every sample in memory, and is '
            f"for data that is there; {source.data} stays on disk. Use "
            'schedule="online".'
        )
    split = datasets.load(
        source.data,
        data_dir=data_dir or source.data_dir,
        path=path or source.path,
        queries_per_class=source.queries_per_class,
        validation_per_class=source.validation_per_class,
        train_per_class=source.train_per_class,
        unseen_classes=source.unseen_classes,
        query_share=source.query_share,
        validation_share=source.validation_share,
        seed=config.seed,
    )
    return split.validation_split() if source.on_validation else split


def build_model(config: TrainingConfig, num_classes: int) -> VDSH:
    """The untrained, compiled model of a run; refuses one beyond memory."""
    config.check_memory()
    network, optimization = config.network, config.optimization
    first = config.stages[0]
    staged = schedules.make(config.schedule).takes_optimizer
    model = VDSH(
        layers=config.layers,
        width=network.width,
        bits=network.bits,
        num_classes=num_classes,
        schedule=config.schedule,
        solver=config.solver,
        initializer=network.initializer,
        grow_from=first.layers if staged else config.layers,
        seed=config.seed,
        normalization=network.normalization,
    )
    adam = optimizers.adam(first.learning_rate, optimization.weight_decay)
    model.compile(
        optimizer=adam if staged else None,
        recipe=dataclasses.replace(optimization.recipe, stages=config.stages),
        jit_compile=optimization.jit_compile and staged,
    )
    return model


def train(
    directory: runs.RunDirectory,
    split: datasets.Split,
    verbose="auto",
    team: Team | None = None,
) -> dict:
    """Trains the run in `directory`, from its last checkpoint if it has one.

    Other processes are kept out of the directory meanwhile. A run that is
    finished, maybe by one of them, is not trained again.

    Args:
        directory: of the run. All workers of a team see it; the chief writes.
        split: the data.
        verbose: as in Keras.
        team: training.team.Team, if there are several workers.

    Returns:
        Retrieval metrics on the queries, as written to metrics.json.

    Raises:
        RuntimeError: another process trains this run.
        ValueError: the data is not what the run was begun with, or a worker
            has other data, settings or code than the chief.
    """
    if team is not None:
        return _train_together(directory, split, verbose, team)
    with files.locked(directory.path):
        if directory.finished:
            return directory.read_json("metrics.json")
        provenance.check_data(directory, split)
        directory.write_json("data.json", provenance.describe(split))
        return _train(directory, split, verbose)


def check_same(
    team: Team, config: TrainingConfig, split: datasets.Split
) -> None:
    """Refuses a worker that has other code, settings or data."""
    settings = config.replace(data_dir=None, path=None)
    team.check_same(
        code=team_lib.code_version(),
        settings=json.dumps(settings.to_json()),
        data=provenance.digest(split),
    )


def _train_together(directory, split, verbose, team):
    check_same(team, directory.config, split)
    with contextlib.ExitStack() as stack:

        def begin():
            stack.enter_context(files.locked(directory.path))
            if directory.finished:
                return directory.read_json("metrics.json")
            provenance.check_data(directory, split)
            directory.write_json("data.json", provenance.describe(split))
            return None

        finished = team.from_chief(begin)
        if finished is not None:
            return finished
        with team.watching():
            return _train(
                directory, split, verbose if team.is_chief else 0, team
            )


def _train(directory, split, verbose, team=None):
    config = directory.config
    keras.utils.set_random_seed(config.seed)
    checkpoint = directory.last_checkpoint()
    if team is not None:
        checkpoint = team.from_chief(directory.last_checkpoint)
    stem, done = checkpoint or (None, 0)
    scope = contextlib.nullcontext() if team is None else team.strategy.scope()
    with scope:
        if checkpoint is None:
            model = build_model(config, split.num_classes)
        else:
            logging.info("Resuming after epoch %d of %d.", done, config.epochs)
            model = runs.load_model(f"{stem}.keras")
    rows = directory.read_history()[:done]
    stopwatch = Stopwatch(float(rows[-1]["seconds"]) if rows else 0.0)
    callbacks = [stopwatch]
    if len(split.validation):
        callbacks.append(RetrievalEvaluation(*held_out.search(split)))
    if team is not None and not model.algorithm.takes_optimizer:
        callbacks.append(StateRecord(directory, team))
    if team is None or team.is_chief:
        callbacks.append(LayerConvergence(directory.file("tensorboard")))
        callbacks.append(EpochRecord(directory, rows, stopwatch))
    if model.algorithm.takes_optimizer:
        fit_online(model, config, split, done, callbacks, verbose)
    else:
        _fit_full(model, config, split, stem, done, callbacks, verbose)
    if team is None:
        return finish(directory, model, split, rows)
    return team.from_chief(lambda: finish(directory, model, split, rows))


def evaluate(model: VDSH, split: datasets.Split) -> dict:
    """Retrieval metrics of a model: queries against the database."""
    return evaluate_with_curves(model, split)[0]


def evaluate_with_curves(
    model: VDSH, split: datasets.Split
) -> tuple[dict, dict]:
    """Metrics, and the curves behind them, from one pass over distances.

    Where the database is not what was trained on, `trained` has the metrics
    of a search in what was.
    """
    result, counts = splits.evaluate(model.encode, split, model.encoder.bits)
    return result, curves.retrieval_curves(counts)


def finish(directory, model, split, rows) -> dict:
    """Writes model, picture and, last, the metrics."""
    _require_progress(rows)
    runs.save_model(model, directory.file("model.keras"))
    # Online, the dual is a multiple of the residual.
    online = model.algorithm.takes_optimizer
    names = ("objective", "accuracy", "val_map")
    plots.convergence(
        _by_layer(rows, "residual", model),
        {
            name: [float(row.get(name) or "nan") for row in rows]
            for name in names
        },
        directory.file("convergence.png"),
        dual=None if online else _by_layer(rows, "dual", model),
    )
    result = {
        **evaluate(model, split),
        "queries": len(split.query),
        "database": len(split.database),
        "train_seconds": float(rows[-1]["seconds"]),
        "bits": model.encoder.bits,
        "layers": _layers(model),
        "width": model.encoder.width,
    }
    gap = held_out.gap(model, split, result)
    if gap is not None:
        result["held_out"] = gap._asdict()
    unknown, known = gap or (result["map"], None)
    for sentence in advice.sentences(
        result["distinct_codes"], result["database"], unknown, known
    ):
        logging.warning(sentence)
    directory.write_json("metrics.json", result)
    directory.remove_checkpoints()
    return result


def _require_progress(rows):
    """Refuses a run of which no epoch ended well: its weights are the first."""
    if not any(math.isfinite(float(row["objective"])) for row in rows):
        raise CollapsedError(
            "Training must have a finite objective, but it diverged in every "
            "epoch: the weights are those that it began with, and no model "
            "was saved. Train another run with a smaller rate in its stages."
        )


def fit_online(model, config, split, done, callbacks, verbose):
    """Trains a new or resumed model by batches.

    Args:
        model: from `build_model`, or as it was after `done` epochs.
        config, split: settings and data.
        done: epochs that the model has behind it.
        callbacks: of Keras.
        verbose: as in Keras.

    Returns:
        Keras' History.
    """
    return model.fit(
        split.train.x,
        split.train.y,
        batch_size=config.optimization.batch_size,
        epochs=config.epochs,
        initial_epoch=done,
        callbacks=callbacks,
        verbose=verbose,
    )


def _fit_full(model, config, split, stem, done, callbacks, verbose):
    optimization = config.optimization
    if stem is not None:
        data = TrainingData(
            split.train.x, split.train.y, batch_size=optimization.batch_size
        )
        # As `fit` will: the state is about these very rows.
        data = data.checked(
            model.input_width,
            model.num_classes,
            scale_free=model.encoder.scale_free,
        )
        model.prepare(data)
        runs.load_state(model, stem)
    model.fit(
        split.train.x,
        split.train.y,
        batch_size=optimization.batch_size,
        epochs=config.stages[-1].epochs,
        initial_epoch=done,
        callbacks=callbacks,
        verbose=verbose,
    )


def _by_layer(rows, name, model):
    """[epochs, M] of a number in the history that has one per layer."""
    layers = range(1, _layers(model) + 1)
    return np.array(
        [[float(row[f"{name}_{m}"]) for m in layers] for row in rows]
    )


def _layers(model):
    return model.encoder.num_layers
