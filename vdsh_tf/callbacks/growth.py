"""GrowDepth: depth and learning rate over the stages of training."""

import math

import keras

from vdsh_tf import config
from vdsh_tf import optimizers
from vdsh_tf.recipes import Stage


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
        others = [s for s in self.stages if not isinstance(s, Stage)]
        config.require(
            not others,
            "stages",
            others,
            "of `vdsh_tf.recipes.Stage`s",
            'such as Stages.parse("4:8:3e-3,48:4:4e-4")',
        )
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
        # What others, such as ReduceLROnPlateau, have made of the rates.
        self.factor = 1.0
        self._last_rate: float | None = None

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
        self._keep_changed_rate()
        self._stage, place = self.stage_at(epoch)
        self._place = place
        self.model.set_depth(self._stage.layers)
        if self.model.train_function is None:
            self.model.make_train_function()
        if place == 0:
            self._restart_optimizer()

    def on_train_batch_begin(self, batch, logs=None):
        optimizer = self.model.optimizer
        if optimizer is None or optimizers.rate_is_fixed(optimizer):
            return
        steps = self.params.get("steps") or 0
        within = (batch + 1) / steps if steps else 0.5
        progress = (self._place + min(within, 1.0)) / self._stage.epochs
        self._last_rate = self.factor * self.learning_rate(
            self._stage, progress
        )
        self.model.optimizer.learning_rate = self._last_rate

    def _keep_changed_rate(self):
        """Takes over a factor that another callback put on the rate."""
        if self.model.optimizer is None or self._last_rate is None:
            return
        ratio = optimizers.rate_of(self.model.optimizer) / self._last_rate
        if abs(ratio - 1) > 1e-3:
            self.factor *= ratio

    def slow_down(self, factor: float) -> None:
        """Multiplies all rates to come, and forgets the optimizer's past."""
        self.factor *= factor
        self._last_rate = None
        self._restart_optimizer()

    def _restart_optimizer(self):
        optimizer = self.model.optimizer
        if optimizer is None:
            return
        for variable in optimizer.variables:
            if variable is not optimizer._learning_rate:
                variable.assign(keras.ops.zeros_like(variable))
