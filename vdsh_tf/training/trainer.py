"""Trains a run from its settings: what `tools/train.py` calls."""

import time

import keras
import numpy as np
from absl import logging

from vdsh_tf import callbacks
from vdsh_tf import optimizers
from vdsh_tf.data import datasets
from vdsh_tf.evaluation import curves
from vdsh_tf.evaluation import metrics
from vdsh_tf.evaluation import plots
from vdsh_tf.model import VDSH
from vdsh_tf.training.presets import Run
from vdsh_tf.training.trainer import runs


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


class EpochRecord(keras.callbacks.Callback):
    """Writes history and a checkpoint to resume from, after each epoch."""

    def __init__(self, directory: runs.RunDirectory, rows, stopwatch):
        super().__init__()
        self.directory = directory
        self.rows = rows
        self.stopwatch = stopwatch

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
        self.directory.save_checkpoint(self.model, epoch + 1)


def load_data(run: Run, data_dir=None, path=None) -> datasets.Split:
    """The data set of a run, split as the run says.

    Args:
        run: settings.
        data_dir, path: where the data is now, if it has moved.
    """
    return datasets.load(
        run.data,
        data_dir=data_dir or run.data_dir,
        path=path or run.path,
        queries_per_class=run.queries_per_class,
        validation_per_class=run.validation_per_class,
        seed=run.seed,
    )


def build_model(run: Run, num_classes: int) -> VDSH:
    """The untrained, compiled model of a run."""
    online = run.schedule == "online"
    model = VDSH(
        layers=run.layers,
        grow_from=run.stages[0].layers if online else None,
        num_classes=num_classes,
        **{
            name: getattr(run, name)
            for name in (
                "width", "bits", "schedule", "initializer", "seed", "center",
                "alpha_theta", "alpha_w", "beta", "gamma", "copy_step",
                "sweeps", "code_steps", "shared_step", "jacobi",
                "keep_error", "input_metric", "margin", "margin_weight",
            )
        },
    )  # fmt: skip
    adam = optimizers.adam(run.stages[0].learning_rate, run.weight_decay)
    model.compile(
        optimizer=adam if online else None,
        jit_compile=run.jit_compile and online,
    )
    return model


def train(
    directory: runs.RunDirectory, split: datasets.Split, verbose="auto"
) -> dict:
    """Trains the run in `directory`, from its last epoch if it has one.

    Returns:
        Retrieval metrics on the queries, as written to metrics.json.
    """
    run = directory.run
    keras.utils.set_random_seed(run.seed)
    checkpoint = directory.last_checkpoint()
    stem, done = checkpoint or (None, 0)
    if checkpoint is None:
        model = build_model(run, split.num_classes)
    else:
        logging.info("Resuming after epoch %d of %d.", done, run.epochs)
        model = runs.load_model(f"{stem}.keras")
    rows = directory.read_history()[:done]
    stopwatch = Stopwatch(float(rows[-1]["seconds"]) if rows else 0.0)
    follow = [stopwatch]
    if len(split.validation):
        follow.append(
            callbacks.RetrievalEvaluation(split.validation, split.train)
        )
    follow.append(callbacks.LayerConvergence(directory.file("tensorboard")))
    follow.append(EpochRecord(directory, rows, stopwatch))
    if run.schedule == "full":
        _fit_full(model, run, split, stem, done, follow, verbose)
    else:
        fit_online(model, run, split, done, follow, verbose)
    return finish(directory, model, split, rows)


def evaluate(model: VDSH, split: datasets.Split) -> dict:
    """Retrieval metrics of a model: queries against the database."""
    return evaluate_with_curves(model, split)[0]


def evaluate_with_curves(
    model: VDSH, split: datasets.Split
) -> tuple[dict, dict]:
    """Metrics, and the curves behind them, from one pass over distances."""
    database = split.database
    codes = model.encode(database.x)
    counts = metrics.count_by_distance(
        model.encode(split.query.x), split.query.y, codes, database.y
    )
    result = metrics.summarize(counts, codes, model.encoder.bits)
    return result, curves.retrieval_curves(counts)


def finish(directory, model, split, rows) -> dict:
    """Writes model, picture and, last, the metrics."""
    runs.save_model(model, directory.file("model.keras"))
    values = [
        np.array(
            [
                [float(row[f"{name}_{m + 1}"]) for m in range(_layers(model))]
                for row in rows
            ]
        )
        for name in ("residual", "dual")
    ]
    plots.convergence(*values, directory.file("convergence.png"))
    result = {
        **evaluate(model, split),
        "queries": len(split.query),
        "database": len(split.database),
        "train_seconds": float(rows[-1]["seconds"]),
        "bits": model.encoder.bits,
        "layers": _layers(model),
        "width": model.encoder.width,
    }
    directory.write_json("metrics.json", result)
    directory.remove_checkpoints()
    return result


def fit_online(model, run, split, done, follow, verbose):
    """Trains a new or resumed model by batches.

    Args:
        model: from `build_model`, or as it was after `done` epochs.
        run, split: settings and data.
        done: epochs that the model has behind it.
        follow: callbacks; the first keeps the time and runs before all.
        verbose: as in Keras.

    Returns:
        Keras' History.
    """
    dataset, steps = split.train_batches(
        run.batch_size, run.seed, done, run.noise, run.dropout, run.center
    )
    model.build((None, split.train.x.shape[1]))
    if run.center and not model.encoder.center_is_set:
        model.encoder.set_center(split.train_mean())
    grow = callbacks.GrowDepth(run.stages, run.warmup)
    return model.fit(
        dataset,
        epochs=run.epochs,
        initial_epoch=done,
        steps_per_epoch=steps,
        callbacks=[follow[0], grow, *follow[1:]],
        verbose=verbose,
    )


def _fit_full(model, run, split, stem, done, follow, verbose):
    if stem is not None:
        model.full_dataset(split.train.x, split.train.y, run.batch_size)
        model.store.load(f"{stem}.npz")
    model.fit(
        split.train.x,
        split.train.y,
        batch_size=run.batch_size,
        epochs=run.stages[-1].epochs,
        initial_epoch=done,
        callbacks=follow,
        verbose=verbose,
    )


def _layers(model):
    return model.encoder.num_layers
