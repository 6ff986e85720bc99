"""The answer of a classifier as code: what any supervised hashing must beat."""

import dataclasses

import numpy as np

from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class ClassId(method.Method):
    """One-hot code of the class that a logistic regression gives.

    A row of several labels gets a bit for each label that is likelier than
    not, or for the likeliest one. Each bit is repeated as often as the code
    has room for it, so that a ball of radius 2 holds one class; bits beyond
    that stay off.

    Attributes:
        scores: function of unit-length rows, [n, d] -> [n, C], after `fit`.

    Args:
        bits: code length K, C at least.
        seed: of the order of the rows.
        strength: inverse of the weight penalty, C of scikit-learn.
        steps: of Adam on batches of 256 rows.
    """

    title = "class, one-hot"
    reference = (
        "Sablayrolles, Douze, Usunier, Jegou: How should we evaluate "
        "supervised hashing?, ICASSP 2017"
    )

    strength: float = 100.0
    steps: int = 4000

    def fit(self, x, y):
        rows, labels, _ = self.prepare(x, y)
        self._check_length(labels.shape[1])
        self._several = np.asarray(y).ndim == 2
        self._train(rows, labels)
        return self

    def project(self, x):
        scores = self._scores(method.unit_rows(x))
        best = np.argmax(scores, axis=1)
        chosen = np.eye(scores.shape[1], dtype=bool)[best]
        if self._several:
            chosen |= scores > 0.5
        return self._padded(chosen)

    def _check_length(self, classes):
        if self.bits < classes:
            raise ValueError(
                "A code must have a bit for each class. Received: "
                f"bits={self.bits} for {classes} classes."
            )

    def _train(self, rows, labels):
        network = logistic_regression(
            rows, labels, self._several, self.strength, self.steps, self.seed
        )
        self._scores = lambda rows: network.predict(
            rows, batch_size=4096, verbose=0
        )

    def _padded(self, bits):
        out = np.full((len(bits), self.bits), -1.0, np.float32)
        bits = np.repeat(bits, self.bits // bits.shape[1], axis=1)
        out[:, : bits.shape[1]][bits] = 1.0
        return out


@dataclasses.dataclass(eq=False)
class ClassNumber(ClassId):
    """The class as a binary number of ceil(log2 C) bits."""

    title = "class, number"

    def project(self, x):
        best = np.argmax(self._scores(method.unit_rows(x)), axis=1)
        places = np.arange(self._length)
        return self._padded((best[:, None] >> places) & 1 > 0)

    def _check_length(self, classes):
        self._length = max(1, (classes - 1).bit_length())
        if self.bits < self._length:
            raise ValueError(
                f"A code must have {self._length} bits to number {classes} "
                f"classes. Received: bits={self.bits}."
            )


@dataclasses.dataclass(eq=False)
class NetworkClassId(ClassId):
    """One-hot code of the class that VDSH's network gives, trained by Adam.

    Args:
        bits, seed: as for `ClassId`.
        layers, width, epochs, learning_rate: as for `BackpropVDSH`.
    """

    title = "class by the network"

    layers: int = 8
    width: int = 256
    epochs: int = 10
    learning_rate: float = 2e-3

    def _train(self, rows, labels):
        from vdsh_tf.research.baselines import backprop_method

        fitted = backprop_method.BackpropVDSH(
            self.bits,
            self.seed,
            layers=self.layers,
            width=self.width,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
        ).fit(rows, labels)
        self.objective = fitted.objective
        self._scores = lambda rows: fitted.network.predict(
            rows, batch_size=1024, verbose=0
        )


def logistic_regression(rows, labels, several, strength, steps, seed):
    """A Keras model from rows to probabilities of the labels.

    Minimises the cross-entropy plus |W|^2 / (2 strength n) by Adam on batches:
    solvers that look at all rows for each step need minutes for tens of
    thousands of them, and give the same answers.

    Args:
        rows: [n, d] float32, of unit length.
        labels: [n, C] of 0 and 1.
        several: whether a row may have several labels, each by itself.
        strength, steps, seed: as for `ClassId`.
    """
    import keras

    from vdsh_tf.research.baselines import labelled

    # One scale for all columns leaves the penalty what it is.
    variance = np.full(rows.shape[1], max(rows.var(axis=0).mean(), 1e-12))
    penalty = 0.5 / (strength * len(rows) * variance[0])
    losses = keras.losses
    loss = losses.CategoricalCrossentropy()
    if several:
        # Keras takes the mean over labels, where each is a problem by itself.
        loss = losses.BinaryCrossentropy()
        penalty /= labels.shape[1]
    network = keras.Sequential(
        [
            keras.Input((rows.shape[1],)),
            keras.layers.Normalization(
                mean=rows.mean(axis=0), variance=variance
            ),
            keras.layers.Dense(
                labels.shape[1],
                activation="sigmoid" if several else "softmax",
                kernel_initializer="zeros",
                kernel_regularizer=keras.regularizers.L2(float(penalty)),
            ),
        ]
    )
    rate = keras.optimizers.schedules.CosineDecay(1e-2, steps)
    network.compile(
        keras.optimizers.Adam(rate), loss=loss, steps_per_execution=50
    )
    split = labelled.training_split(rows, labels)
    batches, _ = split.train_batches(256, seed)
    network.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)
    return network
