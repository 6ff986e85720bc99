"""HashTransformer: VDSH as a scikit-learn transformer."""

import math
import os
import tempfile

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from sklearn.utils.validation import validate_data

from vdsh_tf import codes as codes_lib
from vdsh_tf.data import batches
from vdsh_tf.evaluation import metrics
from vdsh_tf.model import VDSH
from vdsh_tf.training import runs

# Few rows make few steps per epoch, and a network needs that many.
FEWEST_STEPS = 1500
FEWEST_EPOCHS = 10


class HashTransformer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Learns binary codes from labelled rows; rows with equal labels get
    similar codes.

    ```python
    hasher = HashTransformer(bits=64).fit(x_train, y_train)
    codes = hasher.transform(x)  # uint8, 8 bits per byte
    print(hasher.score(x_test, y_test))  # mAP
    ```

    Features need no scaling: their normalisation is learned, too.

    Args:
        bits: code length K.
        layers: depth of the network, the code layer counted.
        width: units of a hidden layer.
        epochs: passes over the data, or "auto": 10, or as many as make 1,500
            steps.
        batch_size: rows in a batch; None chooses from 16 to 256 by the number
            of rows.
        normalization: "auto", "unit", "center" or "standardize", see
            `HashEncoder`.
        solver: `config.Solver`, its fields as a dictionary, or None.
        packed: whether `transform` packs 8 bits into a byte, as an index
            takes them. Otherwise, each bit is a column of zeros and ones, as
            other estimators take them.
        random_state: integer, RandomState or None. Equal integers give equal
            codes.
        verbose: as in Keras' `fit`.

    Attributes:
        classes_: labels in the order of the network's classes; for multi-hot
            labels, numbers of the columns.
        n_features_in_: width of the rows.
        feature_names_in_: names of the columns, if there were names.
        model_: the trained VDSH.
        codes_: [n, ceil(bits/8)], packed codes of the rows that were fitted.
        labels_: their labels, as numbers [n] or multi-hot [n, C].
    """

    def __init__(
        self,
        bits=64,
        layers=4,
        width=256,
        epochs="auto",
        batch_size=None,
        normalization="auto",
        solver=None,
        packed=True,
        random_state=0,
        verbose=0,
    ):
        self.bits = bits
        self.layers = layers
        self.width = width
        self.epochs = epochs
        self.batch_size = batch_size
        self.normalization = normalization
        self.solver = solver
        self.packed = packed
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):  # noqa: N803
        """Trains the network.

        Args:
            X: [n, d], numbers.
            y: [n] labels, integers or strings; or [n, C] multi-hot.
            sample_weight: [n], or None. A row of weight w counts as w rows.
        """
        X, y = validate_data(  # noqa: N806
            self,
            X,
            y,
            dtype=np.float32,
            multi_output=True,
            ensure_min_samples=2,
        )
        self.classes_, labels = self._encoded(y)
        model = VDSH(
            layers=self.layers,
            width=self.width,
            bits=self.bits,
            num_classes=len(self.classes_),
            solver=self.solver,
            seed=self._seed(),
            normalization=self.normalization,
            dtype="float32",
        )
        model.compile()
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)
        model.fit(
            X,
            labels,
            batch_size=self.batch_size,
            epochs=self._epochs(len(X)),
            sample_weight=sample_weight,
            verbose=self.verbose,
        )
        self.model_ = model
        self.labels_ = labels
        self.codes_ = model.encode(X)
        return self

    def transform(self, X):  # noqa: N803
        """Codes of rows [n, d]: uint8, packed or one bit per column."""
        codes = self._codes(X)
        return codes if self.packed else codes_lib.unpack(codes, self.bits)

    def score(self, X, y):  # noqa: N803
        """Retrieval quality of rows that were not fitted: tie-aware mAP.

        The rows of `X` ask, and the rows that were fitted are searched; those
        with an equal label, or one in common, should come first.

        Args:
            X: [n, d].
            y: their labels, of the kind that `fit` got.
        """
        codes = self._codes(X)
        counts = metrics.count_by_distance(
            codes, self._numbered(y), self.codes_, self.labels_
        )
        return metrics.mean_average_precision(counts)

    def _codes(self, X):  # noqa: N803
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False)  # noqa: N806
        return self.model_.encode(X)

    def _encoded(self, y):
        """Classes, and labels as the network takes them."""
        if y.ndim == 2 and y.shape[1] > 1:
            return np.arange(y.shape[1]), y
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                "`y` must hold at least two classes, or there is nothing to "
                f"tell apart. Received: one class, {classes[0]!r}."
            )
        return classes, labels

    def _numbered(self, y):
        """Labels by the classes of `fit`; -1 for one it did not see."""
        y = np.asarray(y)
        if self.labels_.ndim == 2:
            return y
        y = column_or_1d(y)
        places = np.searchsorted(self.classes_, y)
        places = np.minimum(places, len(self.classes_) - 1)
        return np.where(self.classes_[places] == y, places, -1)

    def _seed(self):
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _epochs(self, rows):
        if self.epochs != "auto":
            return self.epochs
        size = self.batch_size or batches.default_size(rows)
        steps = max(1, rows // size)
        return max(FEWEST_EPOCHS, math.ceil(FEWEST_STEPS / steps))

    @property
    def _n_features_out(self):
        return math.ceil(self.bits / 8) if self.packed else self.bits

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __getstate__(self):
        """With the network as the bytes of a .keras file, not as code."""
        state = super().__getstate__()
        if "model_" in state:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.keras")
                runs.save_model(self.model_, path)
                with open(path, "rb") as file:
                    state = {**state, "model_": file.read()}
        return state

    def __setstate__(self, state):
        if "model_" in state:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.keras")
                with open(path, "wb") as file:
                    file.write(state["model_"])
                state = {**state, "model_": runs.load_model(path)}
        super().__setstate__(state)
