"""What Keras users call beside `fit`: checked, or refused with a sentence.

`fit` checks its data before training. `evaluate`, `predict` and the functions
of one batch are entries, too; here they check theirs in the same way. What
Keras offers every model and this one cannot do is refused here.
"""

import functools

import keras
import tensorflow as tf

from vdsh_tf import OTHER_BACKEND
from vdsh_tf.data import inputs
from vdsh_tf.data import python_batches
from vdsh_tf.data import tensors
from vdsh_tf.data.training_data import TrainingData

if keras.backend.backend() != "tensorflow":
    raise ImportError(OTHER_BACKEND)

_EXPORT = (
    "Use `vdsh_tf.export.exporter.export` or `python tools/export.py`, which "
    "write ONNX, SavedModel and LiteRT files that hold normalisation and bit "
    "packing, and check that all runtimes give the same bits"
)


def refuse_losses(arguments: dict) -> None:
    """Says why `compile` takes no losses and metrics, if it was given some."""
    if arguments:
        names = ", ".join(arguments)
        raise ValueError(
            "`compile` takes `optimizer`, `recipe`, `steps_per_execution`, "
            "`jit_compile` and `run_eagerly`: the loss is the objective of "
            "Algorithm 1, set by `Solver`, and retrieval is measured with "
            "`validation_data` or the callback `RetrievalEvaluation`. "
            f"Received: {names}. Leave them out."
        )


class PlainModel(keras.Model):
    """A model whose files and precision are made by this library's tools."""

    def quantize(self, *args, **kwargs):
        """Refused: a bit is a sign, and quantised weights turn some."""
        raise NotImplementedError(
            "Weights of a hashing network are not quantised in place: codes "
            f"would change unnoticed. {_EXPORT}; `--quantize=static` adds a "
            "file in 8 bits and says how many bits it changes."
        )

    def export(self, *args, **kwargs):
        """Refused: the export of Keras does not load in C++ servers."""
        raise NotImplementedError(
            "`model.export` of Keras would leave out normalisation of pixels, "
            f"bit packing and the parity check. {_EXPORT}."
        )

    def save(self, filepath, *args, **kwargs):
        """Saves as a `.keras` file."""
        if not str(filepath).endswith(".keras"):
            raise ValueError(
                "A model must be saved as a .keras file: the older .h5 format "
                "cannot hold its settings and would not load again. Received: "
                f"filepath={str(filepath)!r}."
            )
        return super().save(filepath, *args, **kwargs)


class CheckedModel(PlainModel):
    """A model that checks features and labels wherever they enter.

    A subclass has `encoder`, `num_classes` and `algorithm`.
    """

    @property
    def input_width(self) -> int | None:
        """d, or None as long as there are no weights."""
        return self.encoder.kernels[0].shape[0] if self.built else None

    @tensors.explained()
    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        **kwargs,
    ):
        """As in Keras; features and labels are checked as in `fit`."""
        # Keras asks for this in `fit`, with data that was checked there.
        if kwargs.get("_use_cached_eval_dataset"):
            return super().evaluate(
                x, y, batch_size, verbose, sample_weight, **kwargs
            )
        self._require_ready()
        data = TrainingData(x, y, sample_weight, batch_size, shuffle=False)
        data = self._checked(data)
        return super().evaluate(
            data.x, data.y, batch_size, verbose, data.weight, **kwargs
        )

    @tensors.explained()
    def predict(self, x, batch_size=None, verbose="auto", **kwargs):
        """Embeddings, as in Keras; rows are checked, those of batches, too."""
        self.require_weights()
        self._require_size(batch_size)
        x = self._checked_rows(x)
        return super().predict(x, batch_size, verbose, **kwargs)

    def train_on_batch(
        self,
        x,
        y=None,
        sample_weight=None,
        class_weight=None,
        return_dict=False,
    ):
        """As in Keras, for a model whose normalisation was learned."""
        self.require_compiled()
        if not self.algorithm.takes_optimizer:
            raise ValueError(
                "The full schedule trains on all data at once, because it "
                "keeps state for every row: use `fit`, or "
                'schedule="online".'
            )
        if not self.encoder.adapted:
            raise ValueError(
                "The normalisation must be learned before single batches are "
                "trained on, or it would change under the weights. Call "
                "`model.encoder.adapt(x)` with a sample of rows, or make the "
                'model with normalization="unit".'
            )
        data = TrainingData(x, y, sample_weight)
        data = self._checked(data).weighted(class_weight, self.num_classes)
        self.build((None, data.width))
        return super().train_on_batch(*data.arrays, return_dict=return_dict)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
        """As in Keras; the batch is checked."""
        self._require_ready()
        data = self._checked(TrainingData(x, y, sample_weight))
        return super().test_on_batch(*data.arrays, return_dict=return_dict)

    def predict_on_batch(self, x):
        """Embeddings of one batch, which is checked."""
        self.require_weights()
        return super().predict_on_batch(self._checked_rows(x))

    def require_compiled(self) -> None:
        """Raises unless `compile` was called."""
        if not self.compiled:
            raise ValueError(
                "The model must be compiled before it is trained or "
                "evaluated: call `model.compile()`, whose defaults suit most "
                "data."
            )

    def require_weights(self) -> None:
        """Raises unless the network is built."""
        if not self.built:
            raise ValueError(
                "The model has no weights yet: `fit` it or load it first."
            )

    def _require_ready(self):
        self.require_compiled()
        self.require_weights()

    def _require_size(self, batch_size):
        TrainingData(None, batch_size=batch_size).check_batch_size()

    def _checked(self, data):
        return data.checked(
            self.input_width,
            self.num_classes,
            scale_free=self.encoder.scale_free,
            several=False,
        )

    def _checked_rows(self, x):
        """Rows of an array, checked; batches that are, as they come."""
        if isinstance(x, tf.data.Dataset):
            return tensors.checked_rows(x, self.input_width)
        check = functools.partial(
            inputs.check_features,
            width=self.input_width,
            scale_free=self.encoder.scale_free,
        )
        if python_batches.is_python(x):
            return python_batches.checked(x, check)
        return check(x)
