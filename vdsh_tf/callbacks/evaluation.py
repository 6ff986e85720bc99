"""Retrieval quality while training."""

import keras
import numpy as np

from vdsh_tf.data.datasets import Part
from vdsh_tf.evaluation import metrics

# Bounds of the evaluation that `fit` does by itself: well under a second.
MOST_ROWS = 10_000
MOST_QUERIES = 1000
FEWEST_ROWS = 20


class RetrievalEvaluation(keras.callbacks.Callback):
    """Adds retrieval metrics to the logs: `val_map` and a few others.

    Accuracy does not show when codes collapse; these do. Give it a validation
    part, never the queries.

    Args:
        query, database: objects with `x` and `y`, such as `datasets.Part`.
        every: epochs between evaluations; the last epoch always counts. None
            evaluates whenever Keras has computed the other `val_` numbers.
    """

    LOGGED = ("map", "precision_r2", "recall_r2", "distinct_codes")

    def __init__(self, query, database, every: int | None = 1):
        super().__init__()
        self.query = query
        self.database = database
        self.every = every

    def on_epoch_end(self, epoch, logs=None):
        if logs is None or not self._is_due(epoch, logs):
            return
        result = metrics.evaluate(
            self.model.encode(self.query.x),
            self.query.y,
            self.model.encode(self.database.x),
            self.database.y,
            self.model.encoder.bits,
        )
        logs.update({f"val_{name}": result[name] for name in self.LOGGED})

    def _is_due(self, epoch, logs):
        if self.every is None:
            return "val_objective" in logs
        last = epoch + 1 == self.params.get("epochs")
        return last or (epoch + 1) % self.every == 0


class ObjectiveAsLoss(keras.callbacks.Callback):
    """Logs `val_objective` under the name that Keras' callbacks expect.

    `EarlyStopping` and others watch `val_loss` unless they are told.
    """

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None and "val_objective" in logs:
            logs["val_loss"] = logs["val_objective"]


def held_out_evaluation(validation_data) -> list[RetrievalEvaluation]:
    """Retrieval among validation rows: a quarter asks, the rest is searched.

    At most 10,000 rows are used, of which 1,000 ask, and none where there are
    fewer than 20. They are drawn at random from arrays, always the same; of
    batches, the first ones count.

    Args:
        validation_data: arrays (x, y, ...), or batches of them.
    """
    if isinstance(validation_data, tuple | list):
        x, y = (np.asarray(part) for part in validation_data[:2])
    else:
        x, y = _first_rows(validation_data)
    if len(x) < FEWEST_ROWS:
        return []
    order = np.random.default_rng(0).permutation(len(x))[:MOST_ROWS]
    asks, found = np.split(order, [min(MOST_QUERIES, len(order) // 4)])
    query, database = Part(x[asks], y[asks]), Part(x[found], y[found])
    return [RetrievalEvaluation(query, database, every=None)]


def _first_rows(batches):
    """Rows and labels of the first batches of (x, y, ...)."""
    xs, ys, count = [], [], 0
    for x, y, *_ in batches:
        xs.append(np.asarray(x))
        ys.append(np.asarray(y))
        count += len(xs[-1])
        if count >= MOST_ROWS:
            break
    if not xs:
        return (), ()
    return np.concatenate(xs), np.concatenate(ys)
