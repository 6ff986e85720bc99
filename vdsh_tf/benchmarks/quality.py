"""Quality over training time: ADMM against back-propagation.

Every method trains the same network on the same batches; after each epoch the
clock stops while its codes are measured on the queries.
"""

import dataclasses
import time
from typing import NamedTuple

import keras
import numpy as np

from vdsh_tf import datasets
from vdsh_tf import inputs
from vdsh_tf import metrics
from vdsh_tf import optimizers
from vdsh_tf import presets
from vdsh_tf import training
from vdsh_tf.baselines import backprop
from vdsh_tf.callbacks import Stage
from vdsh_tf.encoder import INITIALIZERS
from vdsh_tf.presets import Run

KEYS = ("map", "precision_r2", "recall_r2")
CHANGEABLE = ("noise", "dropout", "weight_decay", "warmup")
BASELINE_HELP = (
    f'"START STAGES [SETTING=VALUE ...]" with a start of '
    f"{', '.join(INITIALIZERS)}, stages as of VDSH, and settings of "
    f"{', '.join(CHANGEABLE)}, such as "
    '"looks_linear 48:10:3e-4 dropout=0.1".'
)


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


@dataclasses.dataclass(frozen=True)
class Baseline:
    """One setting of back-propagation by Adam with cosine decay.

    Attributes:
        start: "looks_linear" or "he_normal".
        stages: as for ADMM; a single stage is training at full depth.
        changes: settings that are not VDSH's own, as (name, value); what is
            not named (weight decay, perturbed inputs, ...) it shares.
    """

    start: str
    stages: tuple[Stage, ...]
    changes: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        stages = ",".join(
            f"{s.layers}:{s.epochs}:{s.learning_rate:g}" for s in self.stages
        )
        changes = "".join(f" {k}={v:g}" for k, v in self.changes)
        return f"Adam {self.start} {stages}{changes}"

    def with_layers(self, layers: int) -> "Baseline":
        """The same stages for a network of another depth."""
        run = Run(stages=self.stages).with_layers(layers)
        return dataclasses.replace(self, stages=run.stages)

    def settings(self, run: Run) -> Run:
        """VDSH's settings with this baseline's changes."""
        return dataclasses.replace(
            run,
            stages=self.stages,
            initializer=self.start,
            **dict(self.changes),
        )


def parse_baseline(text: str) -> Baseline:
    """Reads "START STAGES [SETTING=VALUE ...]", see `BASELINE_HELP`."""
    try:
        start, stages, *changes = text.split()
        if start not in INITIALIZERS:
            raise ValueError(f"{start!r} is no start.")
        pairs = [change.split("=") for change in changes]
        unknown = sorted({name for name, _ in pairs} - set(CHANGEABLE))
        if unknown:
            raise ValueError(f"{', '.join(unknown)} cannot be changed.")
        made = Baseline(
            start,
            presets.parse_stages(stages),
            tuple((name, float(value)) for name, value in pairs),
        )
        made.settings(Run())
    except ValueError as error:
        raise ValueError(
            f"A baseline must read {BASELINE_HELP} Received: {text!r}. {error}"
        ) from error
    return made


class Recorder(keras.callbacks.Callback):
    """Measures the codes after each epoch, with the clock stopped.

    Args:
        encode: function of the model and rows that returns packed codes.
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
            self.encode(self.model, self.query.x),
            self.query.y,
            self.encode(self.model, self.database.x),
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
    model = training.build_model(run, split.num_classes)
    recorder = Recorder(lambda m, x: m.encode(x), split, run.bits)
    training.fit_online(model, run, split, 0, [recorder, _Depth(recorder)], 0)
    return recorder.points


def run_baseline(baseline: Baseline, run: Run, split) -> list[Point]:
    """Trains the same network by back-propagation, stage by stage."""
    run = baseline.settings(run)
    keras.utils.set_random_seed(run.seed)
    dim = split.train.x.shape[1]
    mean = split.train_mean() if run.center else np.float32(0)

    def encode(model, x):
        return backprop.encode(model, np.asarray(datasets.unit_rows(x - mean)))

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
