"""Features and labels as tensors: checks of `tf.data`, label vectors.

A dataset is checked batch by batch inside its own pipeline, so that the
training step carries no asserts.
"""

import tensorflow as tf

from vdsh_tf.data import inputs


def checked_dataset(
    dataset: tf.data.Dataset, width: int | None, num_classes: int
) -> tf.data.Dataset:
    """A dataset of (x, y) or (x, y, weight) batches that raises on bad rows.

    Args:
        dataset: batches of x [batch, d] and y [batch] or [batch, C].
        width: d, if the network is built already.
        num_classes: C.
    """
    _check_spec(dataset, width, num_classes)

    def check(x, y, *weight):
        rows = tf.cast(x, tf.float32)
        top = num_classes if y.shape.rank == 1 else 2
        checks = [
            _require(
                tf.math.is_finite(rows),
                f"Features must be finite; a batch has NaN or inf. "
                f"{inputs.CURE}",
            ),
            _require(
                tf.reduce_any(rows != 0, axis=-1),
                "Features must not be all zero, such a row has no direction; "
                f"a batch has one. {inputs.CURE}",
            ),
            _require(
                (y >= 0) & (y < tf.cast(top, y.dtype)),
                f"Labels must be from 0 to {top - 1}; a batch has others. "
                "Renumber the labels, or raise `num_classes`.",
            ),
            *(
                _require(
                    tf.math.is_finite(tf.cast(w, tf.float32)) & (w >= 0),
                    "Sample weights must be finite and >= 0; a batch has "
                    "others.",
                )
                for w in weight
            ),
        ]
        with tf.control_dependencies(checks):
            return (tf.identity(x), tf.identity(y), *weight)

    return dataset.map(check, num_parallel_calls=tf.data.AUTOTUNE).prefetch(
        tf.data.AUTOTUNE
    )


def label_vectors(y, num_classes: int, dtype):
    """Label vectors [batch, C] of integer or multi-hot labels, in a graph."""
    if y.shape.rank == 1:
        return tf.one_hot(tf.cast(y, tf.int32), num_classes, dtype=dtype)
    return tf.cast(y, dtype)


def _require(holds, message):
    return tf.debugging.assert_equal(tf.reduce_all(holds), True, message)


def _check_spec(dataset, width, num_classes):
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise ValueError(
            "The dataset must yield (x, y) pairs, or (x, y, sample_weight). "
            f"Received: element_spec={spec}."
        )
    if dataset.cardinality() == 0:
        raise ValueError(
            "There must be at least one batch. Received: an empty dataset."
        )
    x_spec, y_spec = spec[:2]
    if x_spec.shape.rank != 2 or x_spec.shape[1] is None:
        raise ValueError(
            "The dataset must yield batches of rows of a known width, "
            f"[batch, d]; did you forget `.batch()`? Received: {x_spec}."
        )
    inputs.check_width(x_spec.shape[1], width, x_spec)
    rank = y_spec.shape.rank
    if rank == 2:
        inputs.check_columns(y_spec.shape[1], num_classes, y_spec)
    elif rank != 1 or not y_spec.dtype.is_integer:
        raise ValueError(
            "Labels must be integers [batch] or multi-hot rows [batch, C]. "
            f"Received: {y_spec}."
        )
