"""Quality over training time: ADMM against back-propagation.

Every method trains the same network on the same batches; after each epoch the
clock stops while its codes are measured on the queries.
"""

from typing import NamedTuple

import keras
import numpy as np

from vdsh_tf import optimizers
from vdsh_tf.data import datasets
from vdsh_tf.evaluation import metrics
from vdsh_tf.research.baselines import backprop
from vdsh_tf.research.benchmarks.rivals import Baseline
from vdsh_tf.training import trainer
from vdsh_tf.training.config import TrainingConfig

KEYS = ("map", "precision_r2", "recall_r2")


class Point(NamedTuple):
    """Quality after some training.

    Attributes:
        seconds: training time, without evaluation and start of the process.
        layers: depth at that time.
        map, precision_r2, recall_r2: see `metrics.evaluate`.
    """

    seconds: float
    layers: int
    map: float
    precision_r2: float
    recall_r2: float


class Recorder(trainer.Stopwatch):
    """Measures the codes after each epoch, with the clock stopped.

    Args:
        encode: function of rows that returns their packed codes.
        depth: function that returns the network's depth at present.
        split: data.
        bits: code length.
    """

    def __init__(self, encode, depth, split: datasets.Split, bits: int):
        super().__init__()
        self.encode = encode
        self.depth = depth
        self.query = split.query
        self.database = split.database
        self.bits = bits
        self.points: list[Point] = []

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        result = metrics.evaluate(
            self.encode(self.query.x),
            self.query.y,
            self.encode(self.database.x),
            self.database.y,
            self.bits,
        )
        self.points.append(
            Point(self.seconds, self.depth(), *[result[key] for key in KEYS])
        )


def run_admm(config: TrainingConfig, split: datasets.Split) -> list[Point]:
    """Trains VDSH as configured; its quality after each epoch."""
    keras.utils.set_random_seed(config.seed)
    model = trainer.build_model(config, split.num_classes)
    recorder = Recorder(
        model.encode, lambda: model.encoder.depth, split, config.network.bits
    )
    trainer.fit_online(model, config, split, 0, [recorder], 0)
    return recorder.points


def run_baseline(
    baseline: Baseline, config: TrainingConfig, split: datasets.Split
) -> list[Point]:
    """Trains the same network by back-propagation, stage by stage."""
    config = baseline.settings(config)
    keras.utils.set_random_seed(config.seed)
    centred = config.network.normalization == "center"
    mean = split.train_mean() if centred else np.float32(0)

    def encode(x):
        # `network` is the current stage's.
        rows = np.asarray(datasets.unit_rows(x - mean))
        return backprop.encode(network, rows)

    def depth():
        return len(model.layers) - 1

    recorder = Recorder(encode, depth, split, config.network.bits)
    model, done = _first_network(config, split), 0
    for stage in baseline.stages:
        if stage.layers > depth():
            model = backprop.insert_identities(model, stage.layers)
        network = backprop.code_network(model)
        _fit_stage(model, stage, config, split, mean, done, recorder)
        done += stage.epochs
    return recorder.points


def _first_network(config, split):
    network = config.network
    return backprop.build(
        split.train.x.shape[1],
        split.num_classes,
        config.stages[0].layers,
        network.width,
        network.bits,
        network.initializer,
        config.seed,
    )


def _fit_stage(model, stage, config, split, mean, done, recorder):
    optimization = config.optimization
    dataset, steps = split.train_batches(
        optimization.batch_size,
        config.seed,
        done,
        optimization.noise,
        optimization.dropout,
        config.network.normalization == "center",
    )
    model.compile(
        _adam(stage, steps, optimization),
        loss=backprop.half_squared_error,
        jit_compile=optimization.jit_compile,
    )
    model.fit(
        backprop.training_batches(dataset, split.num_classes, mean),
        epochs=stage.epochs,
        steps_per_epoch=steps,
        shuffle=False,
        verbose=0,
        callbacks=[recorder],
    )


def _adam(stage, steps, optimization):
    total = steps * stage.epochs
    rising = int(total * optimization.warmup)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0 if rising else stage.learning_rate,
        total - rising,
        alpha=0.01,
        warmup_target=stage.learning_rate if rising else None,
        warmup_steps=rising,
    )
    return optimizers.FusedAdam(
        schedule, weight_decay=optimization.weight_decay or None
    )


def time_to(points: list[Point], quality: float) -> float | None:
    """Seconds until the mAP first reached `quality`; None if it never did."""
    return next((p.seconds for p in points if p.map >= quality), None)


def time_to_stay(points: list[Point], quality: float) -> float | None:
    """Seconds after which the mAP was never below `quality`; None if it was.

    A line may reach a quality and lose it again.
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
