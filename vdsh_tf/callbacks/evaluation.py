"""Retrieval quality while training."""

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf.data.datasets import Part
from vdsh_tf.evaluation import metrics


class RetrievalEvaluation(keras.callbacks.Callback):
    """Adds retrieval metrics to the logs: `val_map` and a few others.

    Accuracy does not show when codes collapse; these do. Give it a validation
    part, never the queries.

    Args:
        query, database: objects with `x` and `y`, such as `datasets.Part`.
        every: epochs between evaluations; the last epoch always counts.
    """

    LOGGED = ("map", "precision_r2", "recall_r2", "distinct_codes")

    def __init__(self, query, database, every: int = 1):
        super().__init__()
        self.query = query
        self.database = database
        self.every = every

    def on_epoch_end(self, epoch, logs=None):
        last = epoch + 1 == self.params.get("epochs")
        if (epoch + 1) % self.every and not last:
            return
        result = metrics.evaluate(
            self.model.encode(self.query.x),
            self.query.y,
            self.model.encode(self.database.x),
            self.database.y,
            self.model.encoder.bits,
        )
        if logs is not None:
            logs.update({f"val_{name}": result[name] for name in self.LOGGED})


def held_out_evaluation(validation_data) -> list[RetrievalEvaluation]:
    """Retrieval among validation rows: a quarter asks, the rest is searched.

    At most 10,000 rows are used, and none where there are fewer than 20.
    """
    if isinstance(validation_data, tf.data.Dataset):
        found = list(validation_data.unbatch().batch(10_000).take(1))
        validation_data = found[0] if found else ((), ())
    x, y = (np.asarray(part)[:10_000] for part in validation_data[:2])
    if len(x) < 20:
        return []
    asks = np.arange(len(x)) % 4 == 0
    asks[np.flatnonzero(asks)[1000:]] = False
    return [
        RetrievalEvaluation(Part(x[asks], y[asks]), Part(x[~asks], y[~asks]))
    ]
