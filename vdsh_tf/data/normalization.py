"""Input normalisation: what is measured on rows, and what follows from it.

A row becomes (x - mean) * scale and then has its length set to one. The kinds
differ in what the first step does:

    unit         nothing: mean 0, scale 1
    center       takes the mean row off: scale 1
    standardize  takes it off and divides each column by its deviation

The length that follows makes a common factor of all scales meaningless; the
largest is one. No product can then leave the range of float32, and none can
lift a denormal number, which some runtimes flush, back to an ordinary one.
"""

from typing import NamedTuple

import numpy as np

from vdsh_tf.data import inputs

KINDS = ("unit", "center", "standardize")
CHOICES = ("auto", *KINDS)

MOST_ROWS = 20_000
_MOST_NUMBERS = 2**24
_FEWEST_ROWS = 1000

# Thresholds of the rule, see `choose`.
SPARSE = 0.5
CENTRED = 0.1
ONE_UNIT = 0.5
FEW_COLUMNS = 3

# Share of a column's values that is clipped at each end.
_CLIPPED = 1e-3
# With fewer rows, an extreme value is as good as any other.
_FEWEST_CLIPPED = 20
_CHUNK = 256
_FLOAT32 = np.finfo(np.float32)


class Statistics(NamedTuple):
    """What `measure` finds in a sample of rows.

    Outliers are clipped: of each column, the thousandth part of the values
    at either end (at least one, if there are 20 rows) takes the value next
    to it before anything but `zeros` is computed.

    Attributes:
        mean: [d] float64, of the columns.
        deviation: [d] float64, standard deviation of the columns; 0 for one
            that is constant as far as float32 can tell. If clipping makes a
            column constant, as it does a rare mark, then its farthest value
            from the mean.
        zeros: share of exact zeros.
        mean_share: |mean row|^2 / mean |row|^2, from 0 (centred) to 1.
        spread: (sum_j v_j)^2 / (d sum_j v_j^2) for variances v_j: share of
            the columns that carry the variance. 1 if all vary alike, 1 / d
            if the unit of one drowns the rest.
    """

    mean: np.ndarray
    deviation: np.ndarray
    zeros: float
    mean_share: float
    spread: float


def sample(data) -> np.ndarray:
    """A bounded sample of rows, always the same for the same data.

    Args:
        data: rows [n, d], or batches in an iterable (a `tf.data` dataset, a
            `keras.utils.PyDataset`): x [batch, d], or tuples that begin with
            it.

    Returns:
        float32 [m, d], with values beyond float32 at its ends. All rows if
        there are few. At most 20,000, and 1,000 to 20,000 of wide rows such
        that they hold 2^24 numbers; drawn at random from an array, and the
        first ones of an iterable, which may have no end: shuffle it if it is
        sorted.

    Raises:
        ValueError: if there are no rows, or some are not finite.
    """
    is_array = isinstance(data, list | tuple) or hasattr(data, "__array__")
    rows = _drawn(np.asarray(data)) if is_array else _first(data)
    if rows.dtype == np.float64:
        rows = np.clip(rows, _FLOAT32.min, _FLOAT32.max)
    return rows.astype(np.float32)


def measure(rows: np.ndarray) -> Statistics:
    """Statistics of rows, float32 [n, d]."""
    parts = []
    for start in range(0, rows.shape[1], _CHUNK):
        columns = rows[:, start : start + _CHUNK].T.astype(np.float64)
        parts.append(_measure_columns(columns))
    mean, deviation, variance = (
        np.concatenate(values) for values in zip(*parts, strict=True)
    )
    total, energy = variance.sum(), np.square(mean).sum()
    squares = len(variance) * np.square(variance).sum()
    return Statistics(
        mean,
        deviation,
        zeros=float(np.mean(rows == 0)),
        mean_share=float(energy / (energy + total)) if energy else 0.0,
        spread=float(total**2 / squares) if total else 1.0,
    )


def choose(found: Statistics) -> str:
    """The kind that "auto" stands for.

    Columns have different units if less than half of them carry the variance
    (`spread` < .5). What follows depends on the rows:

    - Sparse (more than half `zeros`, as bags of words and strokes on black)
      or centred (`mean_share` < .1, as principal components): "unit". They
      have no mean worth taking off, and columns that differ for a reason:
      how often a word is used, how much a component explains. Only if the
      units of one or two columns drown all others (different units, and
      `spread` * d < 3): "standardize".
    - Others share a mean that hides what tells them apart: "standardize" if
      their columns have different units, as in most tables; else "center",
      as for pixels and GIST.
    """
    different = found.spread < ONE_UNIT
    if found.zeros > SPARSE or found.mean_share < CENTRED:
        drowned = different and found.spread * len(found.mean) < FEW_COLUMNS
        return "standardize" if drowned else "unit"
    return "standardize" if different else "center"


def fit(rows: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale, float32 [d], for rows [n, d].

    A constant column gets scale 0: the network has learned nothing about
    it, so a new row that differs there should not differ for that. Rows that
    do not vary at all, a single one for example, would vanish with their
    mean: they keep mean 0 and scale 1.

    Args:
        rows: from `sample`.
        kind: one of CHOICES.
    """
    found = measure(rows)
    if kind == "auto":
        kind = choose(found)
    ones = np.ones(rows.shape[1], np.float32)
    if kind == "unit" or not found.deviation.any():
        return 0 * ones, ones
    mean = _without_denormals(found.mean)
    if kind == "center":
        return mean, ones
    varies = found.deviation > 0
    scale = np.zeros_like(found.deviation)
    scale[varies] = found.deviation[varies].min() / found.deviation[varies]
    scale[varies] = np.maximum(scale[varies], _FLOAT32.tiny)
    return mean, scale.astype(np.float32)


def simplified(mean, scale):
    """Mean and scale [d], with None for zeros, for ones and for None."""
    if mean is not None and not mean.any():
        mean = None
    if scale is not None and (np.all(scale == 1) or not scale.any()):
        scale = None
    return mean, scale


def _drawn(x):
    if x.ndim != 2 or not x.size:
        raise ValueError(
            "Normalisation must see rows, [n, d], of which there is at least "
            f"one. Received: shape={x.shape}."
        )
    most = most_rows(x.shape[1])
    if len(x) > most:
        rng = np.random.default_rng(0)
        x = x[np.sort(rng.choice(len(x), most, replace=False))]
    return _finite(x)


def _first(batches):
    found, count = [], 0
    for batch in _iterate(batches):
        x = batch[0] if isinstance(batch, list | tuple) else batch
        x = np.asarray(x)
        found.append(x)
        count += len(x)
        if x.ndim != 2 or count >= most_rows(x.shape[1]):
            break
    if not found or found[-1].ndim != 2:
        raise ValueError(
            "Normalisation must see batches of rows, [batch, d]. Received: "
            + (f"shape={found[-1].shape}." if found else "an empty dataset.")
        )
    rows = np.concatenate(found)
    return _finite(rows[: most_rows(rows.shape[1])])


def _iterate(batches):
    if hasattr(batches, "__iter__"):
        return batches
    return (batches[i] for i in range(len(batches)))


def most_rows(width: int) -> int:
    """Rows in a sample of rows of this width."""
    return min(MOST_ROWS, max(_FEWEST_ROWS, _MOST_NUMBERS // width))


def _finite(rows):
    if not np.isfinite(rows).all():
        raise ValueError(
            "Features must be finite, or one row spoils the statistics of "
            f"all. Received: NaN or inf. {inputs.CURE}"
        )
    return rows


def _measure_columns(columns):
    """Mean, deviation and variance of columns [c, n]."""
    count = columns.shape[1]
    cut = int(np.ceil(count * _CLIPPED)) if count >= _FEWEST_CLIPPED else 0
    ends = (cut, count - 1 - cut)
    low, high = np.partition(columns, ends, axis=1)[:, ends].T
    clipped = np.clip(columns, low[:, None], high[:, None])
    mean, deviation = clipped.mean(axis=1), clipped.std(axis=1)
    variance = np.square(deviation)
    farthest = np.abs(columns - mean[:, None]).max(axis=1)
    deviation = np.where(low == high, farthest, deviation)
    # Rounding of the input to float32 alone makes this much.
    resolution = 4 * _FLOAT32.eps * np.abs(mean)
    varies = deviation > np.maximum(resolution, _FLOAT32.tiny)
    return mean, deviation * varies, variance * varies


def _without_denormals(mean):
    return np.where(np.abs(mean) < _FLOAT32.tiny, 0, mean).astype(np.float32)
