"""Rows that are held out while training: what they search in, and what for."""

from typing import NamedTuple

import numpy as np

from vdsh_tf.callbacks import evaluation
from vdsh_tf.data.datasets import Split
from vdsh_tf.data.protocols import Part
from vdsh_tf.evaluation import metrics


class Gap(NamedTuple):
    """mAP of the same queries among two kinds of rows.

    Attributes:
        map: among rows that were not trained on.
        trained_map: among rows that were.
    """

    map: float
    trained_map: float


def search(
    split: Split,
) -> tuple[Part, Part]:
    """Queries and database of `val_map`: trained on only by the paper.

    Where classes are unseen, validation rows are of trained ones, so that
    they search among themselves.
    """
    if split.trained_query is not None:
        return among_themselves(split)
    unseen = split.unseen
    return split.validation, split.train if unseen is None else unseen


def among_themselves(
    split: Split,
) -> tuple[Part, Part]:
    """A quarter of the validation rows, and the others to search in."""
    asks = np.arange(len(split.validation)) % 4 == 0
    return split.validation.take(asks), split.validation.take(~asks)


def gap(model, split: Split, result: dict) -> Gap | None:
    """mAP among rows that were not trained on, and among those that were.

    Same classes on both sides: without a database of unseen rows, validation
    rows search among each other. None if there are too few of them.
    """
    if split.unseen is not None and split.trained_query is None:
        return Gap(result["map"], result["trained"]["map"])
    if len(split.validation) < evaluation.FEWEST_ROWS:
        return None
    query, others = among_themselves(split)
    rng = np.random.default_rng(0)
    count = min(len(others), len(split.train))
    drawn = np.sort(rng.choice(len(split.train), count, replace=False))
    found = [
        metrics.evaluate(
            model.encode(query.x),
            query.y,
            model.encode(part.x),
            part.y,
            model.encoder.bits,
        )["map"]
        for part in (others, split.train.take(drawn))
    ]
    return Gap(*found)
