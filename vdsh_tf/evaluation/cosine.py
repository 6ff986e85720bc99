"""mAP of real vectors ranked by their cosine: a bound for their codes."""

import numpy as np

from vdsh_tf.evaluation import metrics

_CHUNK = 64


def cosine_map(query, query_labels, database, database_labels) -> float:
    """Mean average precision over the whole database, by cosine.

    Args:
        query, database: [n, d] vectors.
        query_labels, database_labels: [n] integers or [n, C] multi-hot.
    """
    query, database = _unit(query), _unit(database)
    places = np.arange(1, len(database) + 1)
    found = []
    for start in range(0, len(query), _CHUNK):
        part = slice(start, start + _CHUNK)
        order = np.argsort(-query[part] @ database.T, axis=1, kind="stable")
        relevant = metrics.relevance(query_labels[part], database_labels)
        relevant = np.take_along_axis(relevant, order, axis=1)
        precision = np.cumsum(relevant, axis=1) / places
        count = np.maximum(relevant.sum(axis=1), 1)
        found.append((precision * relevant).sum(axis=1) / count)
    return float(np.mean(np.concatenate(found)))


def _unit(rows):
    rows = np.asarray(rows, np.float32)
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(norm, np.finfo(np.float32).tiny)
