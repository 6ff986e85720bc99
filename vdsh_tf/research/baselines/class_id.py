"""The answer of a classifier as code: what any supervised hashing must beat."""

import dataclasses

import numpy as np

from vdsh_tf.research.baselines import method


@dataclasses.dataclass(eq=False)
class ClassId(method.Method):
    """One-hot code of the class that a logistic regression gives.

    A row of several labels gets a bit for each label that is likelier than
    not, or for the likeliest one. Bits beyond the classes stay off.

    Attributes:
        scores: function of unit-length rows, [n, d] -> [n, C], after `fit`.

    Args:
        bits: code length K, C at least.
        seed: not used.
        strength: C of scikit-learn, the inverse of the weight penalty.
    """

    title = "class, one-hot"
    reference = (
        "Sablayrolles, Douze, Usunier, Jegou: How should we evaluate "
        "supervised hashing?, ICASSP 2017"
    )

    strength: float = 100.0

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
        from sklearn import linear_model
        from sklearn import multiclass

        model = linear_model.LogisticRegression(C=self.strength, max_iter=1000)
        if self._several:
            model = multiclass.OneVsRestClassifier(model).fit(rows, labels)
            self._scores = model.predict_proba
            return
        present = np.flatnonzero(labels.any(axis=0))
        model.fit(rows, np.argmax(labels, axis=1))

        def scores(rows):
            out = np.zeros((len(rows), labels.shape[1]))
            out[:, present] = model.predict_proba(rows)
            return out

        self._scores = scores

    def _padded(self, bits):
        out = np.full((len(bits), self.bits), -1.0, np.float32)
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
