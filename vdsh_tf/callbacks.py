"""Keras callbacks: depth growth, retrieval quality, convergence per layer."""

import math

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf import config
from vdsh_tf.config import Stage
from vdsh_tf.evaluation import metrics


class GrowDepth(keras.callbacks.Callback):
    """Trains few layers first, then activates more: exact, and far cheaper.

    A layer is an identity when it is activated, so no output changes. The
    optimizer starts each stage afresh and warms up: without that, its first
    full-size steps in all new layers at once can collapse the codes.

    ```python
    stages = [Stage(4, 4, 1e-3), Stage(48, 4, 3e-4)]
    model = VDSH(layers=48, grow_from=4)
    model.compile()
    model.fit(ds, epochs=8, callbacks=[GrowDepth(stages)])
    ```

    Args:
        stages: Stages of rising depth, the last one as deep as the model.
        warmup: share of a stage in which the learning rate rises.
    """

    def __init__(self, stages, warmup: float = 0.1):
        super().__init__()
        self.stages = tuple(stages)
        depths = [stage.layers for stage in self.stages]
        if not depths or depths != sorted(depths):
            raise ValueError(
                "`stages` must be given, with rising depth, because a trained "
                f"layer cannot be frozen again. Received: layers={depths}."
            )
        config.require(
            config.SHARE_OR_ZERO.holds(warmup),
            "warmup",
            warmup,
            config.SHARE_OR_ZERO.text,
            "because it is a share of the stage",
        )
        self.warmup = warmup

    @property
    def epochs(self) -> int:
        """Length of all stages together."""
        return sum(stage.epochs for stage in self.stages)

    def stage_at(self, epoch: int) -> tuple[Stage, int]:
        """The stage an epoch is in, and the epoch's place within it."""
        for stage in self.stages:
            if epoch < stage.epochs:
                return stage, epoch
            epoch -= stage.epochs
        return stage, epoch + stage.epochs

    def learning_rate(self, stage: Stage, progress: float) -> float:
        """Linear warm-up, then cosine decay to 1 % of the peak."""
        if progress < self.warmup:
            return stage.learning_rate * progress / self.warmup
        share = min(1.0, (progress - self.warmup) / (1 - self.warmup))
        cosine = 0.5 * (1 + math.cos(math.pi * share))
        return stage.learning_rate * (0.01 + 0.99 * cosine)

    def on_train_begin(self, logs=None):
        depth = self.stages[-1].layers
        if depth != self.model.encoder.num_layers:
            raise ValueError(
                "The last stage must be as deep as the model. Received: "
                f"layers={depth} for a model of "
                f"{self.model.encoder.num_layers} layers."
            )

    def on_epoch_begin(self, epoch, logs=None):
        self._stage, place = self.stage_at(epoch)
        self._place = place
        self.model.set_depth(self._stage.layers)
        if self.model.train_function is None:
            self.model.make_train_function()
        if place == 0:
            self._restart_optimizer()

    def on_train_batch_begin(self, batch, logs=None):
        if self.model.optimizer is None:
            return
        steps = self.params.get("steps") or 0
        within = (batch + 1) / steps if steps else 0.5
        progress = (self._place + min(within, 1.0)) / self._stage.epochs
        self.model.optimizer.learning_rate = self.learning_rate(
            self._stage, progress
        )

    def _restart_optimizer(self):
        optimizer = self.model.optimizer
        if optimizer is None:
            return
        for variable in optimizer.variables:
            if variable is not optimizer._learning_rate:
                variable.assign(keras.ops.zeros_like(variable))


class RetrievalEvaluation(keras.callbacks.Callback):
    """Adds retrieval metrics to the logs: `val_map` and a few others.

    Accuracy does not show when codes collapse; these do. Give it a validation
    part, never the queries.

    Args:
        query, database: objects with `x` and `y`, such as `datasets.Part`.
        every: epochs between evaluations; the last epoch always counts.
    """

    LOGGED = ("map", "precision_r2", "recall_r2", "distinct_codes")

    def __init__(self, query, database, every: int = 1):
        super().__init__()
        self.query = query
        self.database = database
        self.every = every

    def on_epoch_end(self, epoch, logs=None):
        last = epoch + 1 == self.params.get("epochs")
        if (epoch + 1) % self.every and not last:
            return
        result = metrics.evaluate(
            self.model.encode(self.query.x),
            self.query.y,
            self.model.encode(self.database.x),
            self.database.y,
            self.model.encoder.bits,
        )
        if logs is not None:
            logs.update({f"val_{name}": result[name] for name in self.LOGGED})


@keras.saving.register_keras_serializable("vdsh_tf")
class LayerMean(keras.metrics.Metric):
    """Mean over batches of one number per layer; frozen layers read 0.

    Args:
        layers: number of layers.
    """

    def __init__(self, layers: int, name="layer_mean", **kwargs):
        super().__init__(name=name, **kwargs)
        self.layers = layers
        self.total = self.add_weight(
            shape=(layers,), initializer="zeros", name="total"
        )
        self.count = self.add_weight(
            shape=(layers,), initializer="zeros", name="count"
        )

    def update_state(self, values, places):
        """Adds `values`, one for each layer number in `places` (from 0)."""
        places = [[p] for p in places]
        values = tf.cast(values, self.total.dtype)
        shape = [self.layers]
        self.total.assign_add(tf.scatter_nd(places, values, shape))
        self.count.assign_add(
            tf.scatter_nd(places, tf.ones_like(values), shape)
        )

    def result(self):
        return tf.math.divide_no_nan(self.total.value, self.count.value)

    def mean_over_layers(self):
        """One number for the progress bar, over the layers that ran."""
        return tf.math.divide_no_nan(
            tf.reduce_sum(self.total), tf.reduce_sum(self.count)
        )

    def get_config(self):
        return {**super().get_config(), "layers": self.layers}


class LayerConvergence(keras.callbacks.Callback):
    """Residual and dual of every layer, kept and written to TensorBoard.

    Attributes:
        residual, dual: one [M] array per epoch; 0 for frozen layers.

    Args:
        log_dir: TensorBoard folder, or None to keep the numbers only.
    """

    def __init__(self, log_dir: str | None = None):
        super().__init__()
        self.log_dir = log_dir
        self.residual: list[np.ndarray] = []
        self.dual: list[np.ndarray] = []
        self._writer = None

    def on_epoch_end(self, epoch, logs=None):
        residual = np.asarray(self.model.layer_residual.result())
        dual = np.asarray(self.model.layer_dual.result())
        self.residual.append(residual)
        self.dual.append(dual)
        if self.log_dir is None:
            return
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self.log_dir)
        with self._writer.as_default(step=epoch):
            for m in self.model.encoder.active:
                tf.summary.scalar(f"residual/layer_{m:02d}", residual[m - 1])
                tf.summary.scalar(f"dual/layer_{m:02d}", dual[m - 1])
            for name, value in (logs or {}).items():
                tf.summary.scalar(f"epoch/{name}", value)
            self._writer.flush()

    def on_train_end(self, logs=None):
        if self._writer is not None:
            self._writer.close()
            self._writer = None
