"""VDSH itself behind the interface of the methods it is compared with."""

import dataclasses

import keras

from vdsh_tf.data import inputs
from vdsh_tf.model import VDSH
from vdsh_tf.research.baselines import labelled
from vdsh_tf.research.baselines import method
from vdsh_tf.training.trainer import presets
from vdsh_tf.training.trainer import trainer


class VDSHMethod(method.Method):
    """Trains as a run says, on the rows given to `fit`.

    `trainer.train` on the same rows gives the same weights.

    Attributes:
        model: the trained VDSH, after `fit`.

    Args:
        bits: code length K; stands above the run's.
        seed: of weights, order and noise; stands above the run's.
        run: a preset's name or a Run; what it says of data is not used.
    """

    title = "VDSH"
    reference = (
        "Zhang, Chen, Saligrama: Efficient Training of Very Deep Neural "
        "Networks for Supervised Hashing, CVPR 2016"
    )

    def __init__(
        self, bits: int = 64, seed: int = 0, run: str | presets.Run = "mnist"
    ):
        super().__init__(bits, seed)
        run = presets.get(run) if isinstance(run, str) else run
        self.run = dataclasses.replace(run, bits=bits, seed=seed)
        self.model: VDSH | None = None

    def fit(self, x, y):
        split = labelled.training_split(x, y)
        keras.utils.set_random_seed(self.seed)
        self.model = trainer.build_model(self.run, split.num_classes)
        train = self._full if self.run.schedule == "full" else self._online
        self.objective = train(split).history["objective"]
        return self

    def project(self, x):
        if self.model is None:
            raise ValueError("`fit` must come before `project` and `encode`.")
        width = self.model.encoder.kernels[0].shape[0]
        x = inputs.check_features(x, width)
        return self.model.predict(x, batch_size=1024, verbose=0)

    def _online(self, split):
        watch = trainer.Stopwatch()
        return trainer.fit_online(self.model, self.run, split, 0, [watch], 0)

    def _full(self, split):
        return self.model.fit(
            split.train.x,
            split.train.y,
            batch_size=self.run.batch_size,
            epochs=self.run.stages[-1].epochs,
            verbose=0,
        )
