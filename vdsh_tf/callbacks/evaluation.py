"""Retrieval quality while training."""

import keras
import numpy as np
from absl import logging

from vdsh_tf.data.datasets import Part
from vdsh_tf.data.shards.rows import StoredRows
from vdsh_tf.evaluation import advice
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
        trained: rows that were trained on, as many as in the database; the
            logs then have `val_trained_map`, the queries' mAP among them, and
            training ends with a warning if it is far higher.
    """

    LOGGED = ("map", "precision_r2", "recall_r2", "distinct_codes")

    def __init__(self, query, database, every: int | None = 1, trained=None):
        super().__init__()
        self.query = query
        self.database = database
        self.every = every
        self.trained = trained
        self._last: tuple | None = None

    def on_epoch_end(self, epoch, logs=None):
        if logs is None or not self._is_due(epoch, logs):
            return
        result = self._search(self.database)
        logs.update({f"val_{name}": result[name] for name in self.LOGGED})
        trained = None
        if self.trained is not None:
            trained = self._search(self.trained)["map"]
            logs["val_trained_map"] = trained
        self._last = result["distinct_codes"], result["map"], trained

    def on_train_end(self, logs=None):
        if self._last is None or self.trained is None:
            return
        distinct, held_out, trained = self._last
        for sentence in advice.sentences(
            distinct, len(self.database.x), held_out, trained
        ):
            logging.warning(sentence)

    def _search(self, database):
        return metrics.evaluate(
            self.model.encode(self.query.x),
            self.query.y,
            self.model.encode(database.x),
            database.y,
            self.model.encoder.bits,
        )

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


def held_out_evaluation(
    validation_data, trained=None
) -> list[RetrievalEvaluation]:
    """Retrieval among validation rows: a quarter asks, the rest is searched.

    At most 10,000 rows are used, of which 1,000 ask, and none where there are
    fewer than 20. They are drawn at random from arrays, always the same; of
    batches, the first ones count.

    Args:
        validation_data: arrays (x, y, ...), or batches of them.
        trained: arrays (x, y, ...) that are trained on, or None; as many of
            their rows are searched in for comparison.
    """
    if isinstance(validation_data, tuple | list):
        x, y = validation_data[:2]
    else:
        x, y = _first_rows(validation_data)
    if len(x) < FEWEST_ROWS:
        return []
    order = np.random.default_rng(0).permutation(len(x))[:MOST_ROWS]
    asks, found = np.split(order, [min(MOST_QUERIES, len(order) // 4)])
    query, database = (
        Part(_taken(x, rows), _taken(y, rows)) for rows in (asks, found)
    )
    if trained is not None and np.ndim(trained[1]) != np.ndim(y):
        trained = None  # Labels of another kind cannot be compared.
    if trained is not None:
        drawn = np.random.default_rng(0).permutation(len(trained[0]))
        drawn = np.sort(drawn[: len(found)])
        trained = Part(*(_taken(part, drawn) for part in trained[:2]))
    return [RetrievalEvaluation(query, database, None, trained)]


def _taken(part, rows):
    """Rows of an array, or of StoredRows, in memory."""
    if isinstance(part, StoredRows):
        return part.take(rows)
    return np.asarray(part)[rows]


def _first_rows(batches):
    """Rows and labels of the first batches of (x, y, ...)."""
    xs, ys, count = [], [], 0
    for x, y, *_ in batches:
        xs.append(np.asarray(x))
        y = np.asarray(y)
        # A single column of class numbers is no multi-hot row.
        ys.append(y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y)
        count += len(xs[-1])
        if count >= MOST_ROWS:
            break
    if not xs:
        return (), ()
    return np.concatenate(xs), np.concatenate(ys)
