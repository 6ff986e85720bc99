"""Retrieval quality of an encoder on a split, as its protocol asks."""

from vdsh_tf.evaluation import cosine
from vdsh_tf.evaluation import graded
from vdsh_tf.evaluation import metrics


def evaluate(encode, split, bits: int) -> tuple[dict, metrics.Counts]:
    """Metrics of the split's own search, and of what was trained on.

    Args:
        encode: function from raw rows to packed codes.
        split: `data.datasets.Split`.
        bits: code length K.

    Returns:
        The metrics of `metrics.evaluate` for the queries in the database,
        with `protocol`; for several labels `ndcg_100`; and where the database
        is not what was trained on, `trained`: the metrics of a search in what
        was. Beside them the counts of the first search, for curves.
    """
    result, counts = _search(encode, split.query, split.database, bits)
    result["protocol"] = split.protocol
    if split.trained_task is not None:
        query, database = split.trained_task
        result["trained"], _ = _search(encode, query, database, bits)
    return result, counts


def evaluate_cosine(embed, split) -> dict:
    """mAP of real vectors by cosine, a bound for codes: same searches.

    Args:
        embed: function from raw rows to vectors.
        split: `data.datasets.Split`.

    Returns:
        `map` and `protocol`, and `trained` with a `map` as in `evaluate`.
    """
    query, database = split.query, split.database
    result = {"map": _cosine(embed, query, database)}
    result["protocol"] = split.protocol
    if split.trained_task is not None:
        result["trained"] = {"map": _cosine(embed, *split.trained_task)}
    return result


def _cosine(embed, query, database):
    return cosine.cosine_map(
        embed(query.x), query.y, embed(database.x), database.y
    )


def _search(encode, query, database, bits):
    found, held = encode(query.x), encode(database.x)
    counts = metrics.count_by_distance(found, query.y, held, database.y)
    result = metrics.summarize(counts, held, bits)
    if query.y.ndim == 2:
        result["ndcg_100"] = graded.ndcg(found, query.y, held, database.y)
    return result, counts
