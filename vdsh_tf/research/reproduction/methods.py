"""Trains a method on a data set and measures its codes."""

import inspect
import time

from vdsh_tf.evaluation import metrics
from vdsh_tf.research.baselines import registry
from vdsh_tf.research.reproduction import networks
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction.tasks import Outcome
from vdsh_tf.research.reproduction.tasks import Task
from vdsh_tf.training.config import TrainingConfig

CLOSED = ("lsh", "itq", "cca_itq", "sdh")
SUBSET = ("ksh", "bre", "mlh", "fasthash")
DEEP = ("dsrh", "dsch", "drsch")
SHALLOW = (*SUBSET, *CLOSED)
ALL = ("vdsh", *SHALLOW[::-1], *DEEP)
# No hashing: the least that it must beat.
TRIVIAL = ("class_id",)
# Settings of a budget that are not the methods' own.
OPTIONS = {
    **{(name, "smoke"): {"steps": 5} for name in (*DEEP, "mlh")},
    **{(name, "small"): {"steps": 700} for name in DEEP},
    ("fasthash", "smoke"): {"trees": 5},
    ("class_id", "smoke"): {"steps": 50},
    ("backprop", "smoke"): {"layers": 4, "width": 64, "epochs": 1},
    # The depth and the rate that did best on validation rows of MNIST.
    ("backprop", "small"): {"layers": 8, "learning_rate": 2e-3},
    ("backprop", "full"): {"layers": 8, "learning_rate": 2e-3},
}
# Rows to train on and search in; None is all.
ROWS = {"smoke": 2000, "small": None, "full": None}
SUBSET_NOTE = (
    "KSH, BRE, MLH and FastHash train on 5,000 rows drawn evenly over the "
    "classes (the paper: 5,000 random rows for KSH and BRE, and on NUS-WIDE "
    "for all four); all others on the whole training part."
)
# Estimated seconds of a point with the budget `small`.
_COSTS = {
    "vdsh": 55,
    "sdh": 10,
    "cca_itq": 3,
    "itq": 3,
    "lsh": 2,
    "ksh": 6,
    "bre": 30,
    "mlh": 24,
    "fasthash": 80,
    "dsrh": 25,
    "dsch": 25,
    "drsch": 25,
    "class_id": 10,
}


def task(
    figure: str,
    data: str,
    name: str,
    bits: int,
    budget: str,
    keep_codes: bool = False,
) -> Task:
    """The point of one method on one data set at one code length.

    Args:
        figure: under which the point is stored.
        data: name of `sources`; a deep method gets its images.
        name: "vdsh" or a name of the registry.
        bits: code length.
        budget: one of tasks.BUDGETS.
        keep_codes: whether the queries' codes are stored for other points.
    """
    rows = ROWS[budget]
    config = networks.preset(data, bits, budget) if name == "vdsh" else None
    own, fit = training(name, bits, budget, config)
    settings = {
        "data": sources.IMAGES[data] if name in DEEP else data,
        "rows": rows,
        "method": name,
        "bits": bits,
        "seed": 0,
        **own,
    }

    def compute(context):
        split = split_for(context.data, data, name, rows)
        result, query_codes = measure(fit, split, bits)
        arrays = {"codes": query_codes, "labels": split.query.y}
        return Outcome(result, arrays if keep_codes else None)

    return Task(
        figure,
        f"{settings['data']}-{name}-{bits}",
        settings,
        compute,
        cost=5 if budget == "smoke" else _COSTS[name] * (0.6 + bits / 160),
        headline=("map", "precision_r2"),
        unit="bits",
    )


def training(
    name: str, bits: int, budget: str, config: TrainingConfig | None = None
):
    """How a method is trained: its settings, and a function of a split.

    Args:
        name: "vdsh" or a name of the registry.
        bits: code length.
        budget: one of tasks.BUDGETS.
        config: of VDSH.

    Returns:
        Settings as a dictionary, and a function that trains on a split and
        returns the encoder, the seconds and the number of rows used.
    """
    if config is not None:
        return {"config": networks.config_settings(config)}, vdsh_fit(config)
    options = options_of(name, budget)
    return {"options": options}, method_fit(name, bits, options)


def options_of(name: str, budget: str) -> dict:
    """All settings of a method but bits and seed, so that changes show."""
    parameters = inspect.signature(registry.load(name)).parameters
    options = {
        key: parameter.default
        for key, parameter in parameters.items()
        if key not in ("bits", "seed")
    }
    return {**options, **OPTIONS.get((name, budget), {})}


def split_for(library, data: str, name: str, rows: int | None):
    """The rows that a method learns from: features, or images."""
    if name in DEEP:
        return library.images(data, rows)
    return library.split(data, rows)


def method_fit(name: str, bits: int, options: dict, seed: int = 0):
    """A function that trains a method on a split, see `training`."""

    def fit(split):
        method = registry.make(name, bits, seed, **options)
        start = time.perf_counter()
        method.fit(split.train.x, split.train.y)
        seconds = time.perf_counter() - start
        rows = min(method.subset or len(split.train), len(split.train))
        return method.encode, seconds, rows

    return fit


def vdsh_fit(config: TrainingConfig):
    """A function that trains VDSH on a split, see `training`."""

    def fit(split):
        model, seconds = networks.train(config, split)
        return model.encode, seconds, len(split.train)

    return fit


def measure(fit, split, bits: int):
    """Retrieval metrics at every radius, times, and the queries' codes."""
    encode, seconds, rows = fit(split)
    database = split.database
    start = time.perf_counter()
    database_codes = encode(database.x)
    encode_seconds = time.perf_counter() - start
    query_codes = encode(split.query.x)
    result = metrics.evaluate(
        query_codes, split.query.y, database_codes, database.y, bits
    )
    result.update(
        train_seconds=round(seconds, 2),
        encode_microseconds=round(1e6 * encode_seconds / len(database), 1),
        trained_on=rows,
        queries=len(split.query),
        database=len(database),
    )
    return result, query_codes
