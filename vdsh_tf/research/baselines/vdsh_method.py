"""VDSH itself behind the interface of the methods it is compared with."""

import dataclasses

import keras

from vdsh_tf.data import inputs
from vdsh_tf.model import VDSH
from vdsh_tf.research.baselines import labelled
from vdsh_tf.research.baselines import method
from vdsh_tf.training import presets
from vdsh_tf.training import trainer
from vdsh_tf.training.config import TrainingConfig


@dataclasses.dataclass(eq=False)
class VDSHMethod(method.Method):
    """Trains as a configuration says, on the rows given to `fit`.

    `trainer.train` on the same rows gives the same weights.

    Attributes:
        model: the trained VDSH, after `fit`.

    Args:
        bits: code length K; overrides the configuration's.
        seed: of weights, order and noise; overrides the configuration's.
        config: a preset's name or a TrainingConfig; its data source is not
            used.
    """

    title = "VDSH"
    reference = (
        "Zhang, Chen, Saligrama: Efficient Training of Very Deep Neural "
        "Networks for Supervised Hashing, CVPR 2016"
    )

    config: str | TrainingConfig = "mnist"
    model: VDSH | None = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self):
        config = self.config
        if isinstance(config, str):
            config = presets.get(config)
        self.config = config.replace(bits=self.bits, seed=self.seed)

    def fit(self, x, y):
        split = labelled.training_split(x, y)
        keras.utils.set_random_seed(self.seed)
        self.model = trainer.build_model(self.config, split.num_classes)
        if self.model.algorithm.takes_optimizer:
            watch = trainer.Stopwatch()
            trainer.fit_online(self.model, self.config, split, 0, [watch], 0)
        else:
            fit_full(self.model, self.config, split)
        self.objective = self.model.history.history["objective"]
        return self

    def project(self, x):
        model = method.require_fitted(self.model)
        width = model.encoder.kernels[0].shape[0]
        x = inputs.check_features(x, width)
        return model.predict(x, batch_size=1024, verbose=0)


def fit_full(model: VDSH, config: TrainingConfig, split, callbacks=()) -> None:
    """Trains a new model by Algorithm 1, as many iterations as configured."""
    model.fit(
        split.train.x,
        split.train.y,
        batch_size=config.optimization.batch_size,
        epochs=config.stages[-1].epochs,
        callbacks=list(callbacks),
        verbose=0,
    )
