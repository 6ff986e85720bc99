"""The network of VDSH trained by back-propagation, as one of the methods."""

import dataclasses

import keras

from vdsh_tf.research.baselines import backprop
from vdsh_tf.research.baselines import labelled
from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class BackpropVDSH(method.Method):
    """Eq. 4's data term by Adam, from looks-linear weights.

    All layers train from the start; the learning rate decays by a cosine.

    Attributes:
        network: the Keras model with its classifier, after `fit`.

    Args:
        bits: code length K.
        seed: of starting weights and the order of the rows.
        layers, width: as in `HashEncoder`.
        epochs: passes over the rows.
        learning_rate: at the start.
        batch_size: rows in a step.
    """

    title = "Back-prop"
    reference = "the network of VDSH with Adam in place of ADMM"

    layers: int = 48
    width: int = 256
    epochs: int = 10
    learning_rate: float = 3e-4
    batch_size: int = 256
    network: keras.Sequential | None = dataclasses.field(
        default=None, init=False, repr=False
    )

    def fit(self, x, y):
        split = labelled.training_split(x, y)
        self.network = backprop.build(
            x.shape[1],
            split.num_classes,
            self.layers,
            self.width,
            self.bits,
            "looks_linear",
            self.seed,
        )
        dataset, steps = split.train_batches(self.batch_size, self.seed)
        schedule = keras.optimizers.schedules.CosineDecay(
            self.learning_rate, steps * self.epochs, alpha=0.01
        )
        self.network.compile(
            keras.optimizers.Adam(schedule), loss=backprop.half_squared_error
        )
        history = self.network.fit(
            backprop.training_batches(dataset, split.num_classes),
            epochs=self.epochs,
            steps_per_epoch=steps,
            shuffle=False,
            verbose=0,
        )
        self.objective = history.history["loss"]
        self._embedding = backprop.code_network(self.network)
        return self

    def project(self, x):
        method.require_fitted(self.network)
        return self._embedding.predict(
            method.unit_rows(x), batch_size=1024, verbose=0
        )
