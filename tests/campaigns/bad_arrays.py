"""Features, labels and weights that are not what they must be."""

import array
import datetime
import functools
import io

import numpy as np
import pandas as pd
import scipy.sparse
import tensorflow as tf

from tests.campaigns.bad_inputs import Case
from vdsh_tf import VDSH
from vdsh_tf import Hasher
from vdsh_tf import HashTransformer
from vdsh_tf.evaluation import metrics

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
X = (RNG.integers(1, 60, (90, 6)) + 60 * np.eye(3).repeat(2, 1)[Y]).astype("f4")


def model(**settings):
    made = VDSH(
        **{"layers": 2, "width": 8, "bits": 8, "num_classes": 3, **settings}
    )
    made.compile()
    return made


@functools.cache
def fitted():
    made = model()
    made.fit(X, Y, verbose=0)
    return made


@functools.cache
def codes():
    return fitted().encode(X)


def put(value, dtype="f4"):
    """Rows with one value in their middle."""
    x = X.astype(dtype)
    x[40, 3] = value
    return x


def row(value):
    x = X.copy()
    x[7] = value
    return x


# What no entry for features may take.
FEATURES = {
    "inf": lambda: put(np.inf),
    "-inf": lambda: put(-np.inf),
    "NaN in float16": lambda: put(np.nan, "f2"),
    "overflow to inf in float16": lambda: put(70_000, "f2"),
    "a row of zeros": lambda: row(0),
    "a row of negative zeros": lambda: row(-0.0),
    "all rows zero": lambda: 0 * X,
    "a zero row of bytes": lambda: row(0).astype("u1"),
    "no rows": lambda: X[:0],
    "no columns": lambda: X[:, :0],
    "one row without its axis": lambda: X[0],
    "three axes": lambda: X[:, :, None],
    "a number": lambda: 3.0,
    "one column more": lambda: np.c_[X, X[:, 0]],
    "one column less": lambda: X[:, 1:],
    "transposed": lambda: X.T,
    "complex": lambda: X.astype(complex),
    "text of numbers": lambda: X.astype(str),
    "bytes of numbers": lambda: X.astype("S5"),
    "objects": lambda: X.astype(object),
    "objects with None": lambda: np.where(X > 50, None, X),
    "dates": lambda: X.astype("M8[D]"),
    "durations": lambda: X.astype("m8[s]"),
    "records": lambda: np.zeros(9, [("a", "f4"), ("b", "f4")]),
    "None": lambda: None,
    "a dictionary": lambda: {"x": X},
    "a set": lambda: {1.0, 2.0},
    "a file name": lambda: "features.npy",
    "a file": lambda: io.BytesIO(b"123"),
    "a function": lambda: np.ones,
    "a date": lambda: datetime.date(2026, 1, 1),
    "rows of different lengths": lambda: [[1.0, 2.0], [1.0]],
    "lists with None": lambda: [[1.0] * 5 + [None]] * 4,
    "lists of text": lambda: [["a"] * 6] * 4,
    "a table with a name column": lambda: pd.DataFrame(X).assign(name="a"),
    "a table with a gap": lambda: pd.DataFrame(X).mask(X.max() == X),
    "a nullable table with a gap": lambda: (
        pd.DataFrame(X).mask(X.max() == X).astype("Float32")
    ),
    "a column of a table": lambda: pd.Series(X[:, 0]),
    "categories": lambda: pd.Series(Y.astype(str)).astype("category"),
    "a sparse matrix with NaN": lambda: scipy.sparse.csr_array(put(np.nan)),
    "a sparse matrix of another width": lambda: scipy.sparse.csr_array(X.T),
    "a sparse matrix beyond memory": lambda: scipy.sparse.csr_array(
        (2**31 - 2, 6 * 10**6), dtype="f4"
    ),
    "a sparse tensor": lambda: tf.sparse.from_dense(X),
    "a ragged tensor": lambda: tf.ragged.constant([[1.0, 2.0], [1.0]]),
    "a tensor of text": lambda: tf.constant([["a"] * 6]),
}

# What every entry must take as if it were a plain array.
SAME = {
    "backwards": lambda: X[::-1][::-1],
    "read-only": lambda: np.frombuffer(X.tobytes(), "f4").reshape(X.shape),
    "every second of twice": lambda: np.repeat(X, 2, axis=0)[::2],
    "big-endian": lambda: X.astype(">f8"),
    "a matrix": lambda: np.matrix(X),
    "int16": lambda: X.astype("i2"),
    "uint8": lambda: X.astype("u1"),
    "uint64": lambda: X.astype("u8"),
    "float16": lambda: X.astype("f2"),
    "tuples": lambda: tuple(map(tuple, X.tolist())),
    "a list of arrays": lambda: list(X),
    "a memory view": lambda: memoryview(X),
    "arrays of Python": lambda: [array.array("f", r) for r in X.tolist()],
    "a table with odd index": lambda: pd.DataFrame(X, index=RNG.random(90)),
    "a nullable table": lambda: pd.DataFrame(X).astype("Float64"),
    "a variable": lambda: tf.Variable(X),
    "COO": lambda: scipy.sparse.coo_matrix(X),
    "columns first": lambda: scipy.sparse.csc_array(X),
    "masked without a mask": lambda: np.ma.masked_invalid(X),
}

# Labels that neither training nor evaluation may take.
LABELS = {
    "one below": lambda: Y - 1,
    "counted from 1": lambda: Y + 1,
    "names": lambda: np.array(["a", "b", "c"])[Y],
    "halves": lambda: Y / 2,
    "whole floats": lambda: Y.astype("f4"),
    "NaN": lambda: np.where(Y == 1, np.nan, Y),
    "complex": lambda: Y.astype(complex),
    "dates": lambda: Y.astype("M8[D]"),
    "None": lambda: None,
    "objects": lambda: Y.astype(object),
    "a number": lambda: 1,
    "one too few": lambda: Y[1:],
    "one too many": lambda: np.r_[Y, 0],
    "none at all": lambda: Y[:0],
    "three axes": lambda: Y[:, None, None],
    "a column too many": lambda: np.eye(4)[Y],
    "a column too few": lambda: np.eye(3)[Y][:, :2],
    "counts for marks": lambda: 2 * np.eye(3)[Y],
    "marks of -1 and 1": lambda: 2 * np.eye(3)[Y] - 1,
    "marks with NaN": lambda: np.where(np.eye(3)[Y] > 0, np.nan, 0),
    "shares of classes": lambda: np.full((90, 3), 1 / 3),
    "huge unsigned": lambda: Y.astype("u8") + np.uint64(2**63),
    "huge signed": lambda: Y + 2**62,
    "a dictionary": lambda: {"y": Y},
    "lists of different lengths": lambda: [[1], [1, 2]] * 45,
    "a table of two columns": lambda: pd.DataFrame({"a": Y, "b": Y}),
    "missing numbers": lambda: pd.Series(Y).astype("Int64").mask(Y == 2),
    "text categories": lambda: pd.Categorical.from_codes(Y, ["a", "b", "c"]),
}

WEIGHTS = {
    "negative": -np.ones(90),
    "NaN": np.full(90, np.nan),
    "inf": np.full(90, np.inf),
    "beyond float32": np.full(90, 1e39),
    "all zero": np.zeros(90),
    "too few": np.ones(89),
    "per class": np.ones((90, 3)),
    "text": np.full(90, "1"),
    "a number": 2.0,
    "a dictionary": {0: 1.0},
}

CLASS_WEIGHTS = {
    "unknown class": {3: 1.0},
    "class by name": {"a": 1.0},
    "negative": {0: -1.0},
    "NaN": {0: float("nan")},
    "inf": {0: float("inf")},
    "text": {0: "1"},
    "a list": [1.0, 2.0, 3.0],
    "balanced": "balanced",
    "None inside": {0: None},
}


def _dataset(x, y, size=30):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(size)


def _fit(x, y=Y, **kwargs):
    return model().fit(x, y, verbose=0, **kwargs)


def _same(found):
    return np.array_equal(found, codes())


def cases() -> list[Case]:
    """Cases of all these entries."""
    hasher = Hasher(fitted().encoder)
    one = {
        "encode": lambda x: fitted().encode(x),
        "Hasher": hasher,
        "predict": lambda x: fitted().predict(x, verbose=0),
    }
    several = {"encode": one["encode"], "Hasher": hasher}
    found = [
        Case(entry, name, lambda c=call, m=make: c(m()))
        for entry, call in one.items()
        for name, make in FEATURES.items()
    ]
    found += [
        Case(entry, name, lambda c=call, m=make: c(m()), _same)
        for entry, call in several.items()
        for name, make in SAME.items()
    ]
    # An unbuilt model has no width yet.
    free = ("one column more", "one column less", "transposed")
    found += [
        Case("fit x", name, lambda m=make: _fit(m()))
        for name, make in FEATURES.items()
        if name not in free
    ]
    for entry, call in (
        ("fit y", lambda y: _fit(X, y)),
        ("evaluate y", lambda y: fitted().evaluate(X, y, verbose=0)),
        ("validation y", lambda y: _fit(X, validation_data=(X, y))),
        ("train_on_batch y", lambda y: fitted().train_on_batch(X, y)),
    ):
        found += [
            Case(entry, name, lambda c=call, m=make: c(m()))
            for name, make in LABELS.items()
        ]
    found += [
        Case("sample_weight", name, lambda w=w: _fit(X, sample_weight=w))
        for name, w in WEIGHTS.items()
    ]
    found += [
        Case("class_weight", name, lambda w=w: _fit(X, class_weight=w))
        for name, w in CLASS_WEIGHTS.items()
    ]
    return [*found, *_datasets(), *_estimator(), *_measures()]


def _datasets():
    """Batches that are wrong from the start, or become so."""
    late = X.copy()
    late[80, 2] = np.inf
    pairs = _dataset(X, Y)
    given = {
        "x alone": pairs.map(lambda x, y: x),
        "four parts": pairs.map(lambda x, y: (x, y, y, y)),
        "a dictionary": pairs.map(lambda x, y: {"x": x, "y": y}),
        "x in a dictionary": pairs.map(lambda x, y: ({"x": x}, y)),
        "rows, not batches": pairs.unbatch(),
        "batches of batches": pairs.batch(2),
        "empty": pairs.take(0),
        "all filtered out": pairs.filter(lambda x, y: False),
        "inf in a late batch": _dataset(late, Y),
        "a late label": _dataset(X, np.r_[Y[:-1], 9]),
        "a zero row": _dataset(row(0), Y),
        "text": _dataset(X.astype(str), Y),
        "float labels": _dataset(X, Y.astype("f4")),
        "sparse": _dataset(X, Y).map(lambda x, y: (tf.sparse.from_dense(x), y)),
        "unknown width": tf.data.Dataset.from_generator(
            lambda: iter([(X, Y)]),
            output_signature=(
                tf.TensorSpec([None, None]),
                tf.TensorSpec([None], tf.int64),
            ),
        ),
        "weights per class": pairs.map(lambda x, y: (x, y, x[:, :3])),
        "negative weights": pairs.map(lambda x, y: (x, y, -x[:, 0])),
        "a failing map": pairs.map(
            lambda x, y: (tf.debugging.check_numerics(x / 0, "mine"), y)
        ),
    }
    found = [
        Case("tf.data", name, lambda d=d: model().fit(d, verbose=0))
        for name, d in given.items()
    ]
    found += [
        Case("tf.data", "labels beside batches", lambda: _fit(pairs, Y)),
        Case(
            "tf.data",
            "a share held out of batches",
            lambda: model().fit(pairs, validation_split=0.2, verbose=0),
        ),
        Case(
            "tf.data",
            "evaluate other widths",
            lambda: fitted().evaluate(_dataset(X[:, 1:], Y), verbose=0),
        ),
        Case("generator", "empty", lambda: model().fit(iter(()), verbose=0)),
        Case("generator", "of numbers", lambda: model().fit(iter([1, 2]))),
        Case("generator", "of rows alone", lambda: model().fit(iter([X, X]))),
        Case(
            "generator",
            "labels that change their kind",
            lambda: model().fit(iter([(X, Y), (X, Y.astype(str))]), verbose=0),
        ),
    ]
    return found


def _estimator():
    def fit(x=X, y=Y, **settings):
        made = {"layers": 2, "width": 8, "bits": 8, "epochs": 1, **settings}
        return HashTransformer(**made).fit(x, y)

    given = {
        "no rows": lambda: fit(X[:0], Y[:0]),
        "one class": lambda: fit(y=0 * Y),
        "continuous labels": lambda: fit(y=Y + 0.5),
        "epochs=0": lambda: fit(epochs=0),
        "epochs='many'": lambda: fit(epochs="many"),
        "bits=0": lambda: fit(bits=0),
        "random_state='a'": lambda: fit(random_state="a"),
        "random_state=-1": lambda: fit(random_state=-1),
        "batch_size=-1": lambda: fit(batch_size=-1),
    }

    # Some of its checks are scikit-learn's, in the words of that library.
    def refused(call):
        try:
            call()
        except (ValueError, TypeError):
            return True
        return False

    return [
        Case("HashTransformer", name, lambda c=call: refused(c), bool)
        for name, call in given.items()
    ]


def _measures():
    good = codes()
    given = {
        "codes of floats": (good.astype("f4"), Y, good, Y),
        "codes as lists": (good.tolist(), Y, good, Y),
        "one axis": (good[:, 0], Y, good, Y),
        "other widths": (np.c_[good, good], Y, good, Y),
        "labels too few": (good, Y[1:], good, Y),
        "labels of two kinds": (good, np.eye(3)[Y], good, Y),
        "no database": (good, Y, good[:0], Y[:0]),
        "no queries": (good[:0], Y[:0], good, Y),
    }
    return [
        Case("metrics", name, lambda a=args: metrics.evaluate(*a, 8))
        for name, args in given.items()
    ]
