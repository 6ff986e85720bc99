"""Quality over training time: ADMM against back-propagation.

Every method trains the same network on the same batches; after each epoch the
clock stops while its codes are measured on the queries.
"""

import time
from typing import NamedTuple

import keras
import numpy as np

from vdsh_tf import optimizers
from vdsh_tf.data import datasets
from vdsh_tf.data import inputs
from vdsh_tf.evaluation import metrics
from vdsh_tf.research.baselines import backprop
from vdsh_tf.research.benchmarks.rivals import Baseline
from vdsh_tf.training.presets import Run
from vdsh_tf.training.trainer import trainer

KEYS = ("map", "precision_r2", "recall_r2")


class Point(NamedTuple):
    """Quality after some training.

    Attributes:
        seconds: training time, evaluation and start of the process excluded.
        layers: depth at that time.
        map, precision_r2, recall_r2: see `metrics.evaluate`.
    """

    seconds: float
    layers: int
    map: float
    precision_r2: float
    recall_r2: float


class Recorder(keras.callbacks.Callback):
    """Measures the codes after each epoch, with the clock stopped.

    Args:
        encode: function of rows that returns their packed codes.
        split: datasets.Split.
        bits: code length.
    """

    def __init__(self, encode, split: datasets.Split, bits: int):
        super().__init__()
        self.encode = encode
        self.query = split.query
        self.database = split.database
        self.bits = bits
        self.seconds = 0.0
        self.layers = 0
        self.points: list[Point] = []

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds += time.perf_counter() - self._start
        result = metrics.evaluate(
            self.encode(self.query.x),
            self.query.y,
            self.encode(self.database.x),
            self.database.y,
            self.bits,
        )
        self.points.append(
            Point(self.seconds, self.layers, *[result[key] for key in KEYS])
        )


class _Depth(keras.callbacks.Callback):
    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def on_epoch_begin(self, epoch, logs=None):
        self.recorder.layers = self.model.encoder.depth


def run_admm(run: Run, split) -> list[Point]:
    """Trains VDSH as the run says; its quality after each epoch."""
    keras.utils.set_random_seed(run.seed)
    model = trainer.build_model(run, split.num_classes)
    recorder = Recorder(model.encode, split, run.bits)
    trainer.fit_online(model, run, split, 0, [recorder, _Depth(recorder)], 0)
    return recorder.points


def run_baseline(baseline: Baseline, run: Run, split) -> list[Point]:
    """Trains the same network by back-propagation, stage by stage."""
    run = baseline.settings(run)
    keras.utils.set_random_seed(run.seed)
    dim = split.train.x.shape[1]
    mean = split.train_mean() if run.center else np.float32(0)

    def encode(x):
        # `network` is the current stage's.
        rows = np.asarray(datasets.unit_rows(x - mean))
        return backprop.encode(network, rows)

    recorder = Recorder(encode, split, run.bits)
    model, done = None, 0
    for stage in baseline.stages:
        if model is None:
            model = backprop.build(
                dim, split.num_classes, stage.layers, run.width, run.bits,
                baseline.start, run.seed,
            )  # fmt: skip
        else:
            model = backprop.insert_identities(model, stage.layers)
        recorder.layers = stage.layers
        network = backprop.code_network(model)
        dataset, steps = split.train_batches(
            run.batch_size, run.seed, done, run.noise, run.dropout, run.center
        )
        labelled = dataset.map(
            lambda x, y: (
                datasets.unit_rows(x - mean),
                inputs.label_vectors(y, split.num_classes, x.dtype),
            )
        )
        model.compile(
            _adam(stage, steps, run.warmup, run.weight_decay),
            loss=backprop.half_squared_error,
            jit_compile=run.jit_compile,
        )
        model.fit(
            labelled,
            epochs=stage.epochs,
            steps_per_epoch=steps,
            shuffle=False,
            verbose=0,
            callbacks=[recorder],
        )
        done += stage.epochs
    return recorder.points


def time_to(points: list[Point], quality: float) -> float | None:
    """Seconds until the mAP first reached `quality`; None if it never did."""
    return next((p.seconds for p in points if p.map >= quality), None)


def time_to_stay(points: list[Point], quality: float) -> float | None:
    """Seconds from which on the mAP was never below `quality`, if it ended so.

    An uneven line may reach a quality and lose it again.
    """
    seconds = None
    for point in reversed(points):
        if point.map < quality:
            break
        seconds = point.seconds
    return seconds


def mean_points(lines: list[list[Point]]) -> list[Point]:
    """The mean of several runs of one setting, epoch by epoch."""
    return [
        Point(*np.mean(epoch, axis=0).tolist())
        for epoch in zip(*lines, strict=True)
    ]


def at_time(points: list[Point], seconds: float) -> Point | None:
    """The last point that was reached by then, if any was."""
    return next((p for p in reversed(points) if p.seconds <= seconds), None)


def _adam(stage, steps, warmup, weight_decay):
    total = steps * stage.epochs
    rising = int(total * warmup)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0 if rising else stage.learning_rate,
        total - rising,
        alpha=0.01,
        warmup_target=stage.learning_rate if rising else None,
        warmup_steps=rising,
    )
    return optimizers.FusedAdam(schedule, weight_decay=weight_decay or None)
