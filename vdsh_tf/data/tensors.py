"""Features and labels as tensors: checks of `tf.data`, label vectors.

A dataset is checked batch by batch inside its own pipeline, so that the
training step carries no asserts.
"""

import contextlib
import re

import tensorflow as tf

from vdsh_tf.data import inputs

# Around a sentence of this module in TensorFlow's report.
_BEGIN, _END = "vdsh_tf says: ", " (end)"


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
        if y.shape.rank == 2 and y.shape[1] == 1:
            y = y[:, 0]
        checks = [
            *_check_rows(x),
            _check_label_values(y, num_classes),
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


def checked_rows(dataset: tf.data.Dataset, width: int) -> tf.data.Dataset:
    """A dataset of x, or of (x, ...), that raises on rows without a code."""
    spec = dataset.element_spec
    x_spec = spec[0] if isinstance(spec, tuple) else spec
    _check_features_spec(x_spec, width)

    def check(x, *others):
        with tf.control_dependencies(_check_rows(x)):
            x = tf.identity(x)
        return (x, *others) if isinstance(spec, tuple) else x

    return dataset.map(check, num_parallel_calls=tf.data.AUTOTUNE)


@contextlib.contextmanager
def explained():
    """Errors of `tf.data` as sentences, without TensorFlow's own report.

    What a check of this module found is a ValueError; what the user's own
    code raised inside a pipeline is a RuntimeError that names it.
    """
    try:
        yield
    except tf.errors.OpError as error:
        text = str(error)
        found = re.search(f"{_BEGIN}(.*?){re.escape(_END)}", text, re.DOTALL)
        if found:
            raise ValueError(found[1]) from None
        if not re.search("IteratorGetNext|PyFunc|Dataset", text):
            raise
        raise RuntimeError(
            "The dataset must yield its batches without an error, but one "
            f"was raised while it was read: {_cause(text)}"
        ) from error


def _cause(text):
    """The line of a report that says what was raised."""
    text = re.sub(r"\{\{.*?\}\} ?", "", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [x for x in lines if re.match(r"[\w.]*(Error|Exception)\b", x)]
    return (named or lines or ["unknown"])[0][:500]


def label_vectors(y, num_classes: int, dtype):
    """Label vectors [batch, C] of integer or multi-hot labels, in a graph."""
    if y.shape.rank == 1:
        return tf.one_hot(tf.cast(y, tf.int32), num_classes, dtype=dtype)
    return tf.cast(y, dtype)


def _check_rows(x):
    size = tf.abs(tf.cast(x, tf.float32))
    return [
        _require(
            size <= inputs.LARGEST,
            "Features must be finite, and at most 2^126 (8.5e37) in size; "
            f"a batch has NaN or inf, or a larger one. {inputs.CURE}",
        ),
        _require(
            tf.reduce_any(size >= inputs.TINY, axis=-1),
            "Features must not be all zero, or smaller than 1.2e-38, such "
            f"a row has no direction; a batch has one. {inputs.CURE}",
        ),
    ]


def _check_label_values(y, num_classes):
    if y.shape.rank == 2:
        return _require(
            (y == tf.zeros((), y.dtype)) | (y == tf.ones((), y.dtype)),
            "Multi-hot labels must be 0 or 1; a batch has others.",
        )
    y = tf.cast(y, tf.int64)
    return _require(
        (y >= 0) & (y < num_classes),
        f"Labels must be from 0 to {num_classes - 1}; a batch has others. "
        "Renumber the labels, or raise `num_classes`.",
    )


def _require(holds, message):
    return tf.debugging.Assert(
        tf.reduce_all(holds), [f"{_BEGIN}{message}{_END}"]
    )


def _check_spec(dataset, width, num_classes):
    spec = dataset.element_spec
    if (
        not isinstance(spec, tuple)
        or len(spec) not in (2, 3)
        or not all(isinstance(part, tf.TensorSpec) for part in spec)
    ):
        raise ValueError(
            "The dataset must yield (x, y) pairs of dense tensors, or (x, y, "
            f"sample_weight). Received: element_spec={spec}."
        )
    if dataset.cardinality() == 0:
        raise ValueError(
            "There must be at least one batch. Received: an empty dataset."
        )
    x_spec, y_spec = spec[:2]
    _check_features_spec(x_spec, width)
    for part in spec[2:]:
        _check_numbers(part)
    if any(part.shape.rank != 1 for part in spec[2:]):
        raise ValueError(
            "Sample weights must be one number per row, [batch]. Received: "
            f"{spec[2]}."
        )
    rank = y_spec.shape.rank
    if rank == 2 and y_spec.shape[1] == 1 and y_spec.dtype.is_integer:
        return
    if rank == 2:
        inputs.check_columns(y_spec.shape[1], num_classes, y_spec)
    elif rank != 1 or not y_spec.dtype.is_integer:
        raise ValueError(
            "Labels must be integers [batch] or multi-hot rows [batch, C]. "
            f"Received: {y_spec}."
        )


def _check_features_spec(spec, width):
    dense = isinstance(spec, tf.TensorSpec)
    if not dense or spec.shape.rank != 2 or spec.shape[1] is None:
        raise ValueError(
            "The dataset must yield batches of rows of a known width, "
            f"[batch, d]; did you forget `.batch()`? Received: {spec}."
        )
    inputs.check_width(spec.shape[1], width, spec)
    _check_numbers(spec)


def _check_numbers(spec):
    if not (spec.dtype.is_floating or spec.dtype.is_integer):
        raise ValueError(
            f"Features and sample weights must be numbers. Received: {spec}."
        )
