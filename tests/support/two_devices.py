"""Trains on two logical CPUs and on one; says how far apart they end.

    python -m tests.support.two_devices

A process of its own, because TensorFlow divides a CPU only before it starts.
"""

import contextlib
import json
import sys

import numpy as np
import tensorflow as tf

from vdsh_tf.config import Solver
from vdsh_tf.model import VDSH
from vdsh_tf.recipes import Recipe
from vdsh_tf.recipes import Stages

ROWS, WIDTH, CLASSES = 203, 12, 4
GROWTH = Recipe(
    stages=Stages.parse("2:1:2e-3,3:1:1e-3"), mixup=0.3, chimeras=0.3, noise=0.3
)


def data(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, ROWS)
    x = rng.normal(size=(CLASSES, WIDTH))[y] + rng.normal(size=(ROWS, WIDTH))
    return x.astype(np.float32), y, rng.random(ROWS).astype(np.float32)


def make(strategy, jit=False, optimizer="auto", recipe=None, **settings):
    scope = strategy.scope() if strategy else contextlib.nullcontext()
    settings = {"layers": 3, "dtype": "float64", **settings}
    with scope:
        model = VDSH(width=16, bits=8, num_classes=CLASSES, **settings)
        model.compile(optimizer, recipe=recipe, jit_compile=jit)
    return model


def train(strategy, weighted=False, stream=False, batch=50, **settings):
    x, y, weight = data()
    model = make(strategy, **settings)
    model.build((None, WIDTH))
    start = [v.numpy() for v in model.trainable_variables]
    given = {"x": x, "y": y, "batch_size": batch}
    if weighted:
        given["sample_weight"] = weight
    if stream:
        given = {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)}
    history = model.fit(
        **given, epochs=2, verbose=0, validation_data=(x[:40], y[:40])
    ).history
    end = [v.numpy() for v in model.trainable_variables]
    return start, end, history, model.encode(x)


def distance(strategy, **settings):
    """Largest difference of weights, logs and codes, in units of a move."""
    start, one, logs, codes = train(None, **settings)
    _, two, other_logs, other_codes = train(strategy, **settings)
    pairs = list(zip(start, one, two, strict=True))
    move = max(np.abs(a - b).max() for a, b, _ in pairs)
    return {
        "weights": max(np.abs(b - c).max() for _, b, c in pairs) / move,
        "logs": max(
            np.abs(np.subtract(logs[name], other_logs[name])).max()
            for name in logs
        ),
        "codes": int(np.sum(codes != other_codes)),
        "names": sorted(set(logs) ^ set(other_logs)),
    }


def collectives(strategy, layers):
    """All-reduces of a replica in the graph of a step, and their bytes."""
    model = make(strategy, layers=layers, dtype="float32")
    model.build((None, WIDTH))
    with model.scope():
        model.optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def step(x, y):
        return model.replicas.run(model.train_part, (x, y))

    graph = step.get_concrete_function(
        tf.TensorSpec([50, WIDTH]), tf.TensorSpec([50], tf.int64)
    ).graph
    inside = graph.as_graph_def().library.function
    hidden = sum(
        "Collective" in node.op for body in inside for node in body.node_def
    )
    found = [op for op in graph.get_operations() if "Collective" in op.type]
    sizes = [
        op.inputs[0].shape.num_elements() * op.inputs[0].dtype.size
        for op in found
    ]
    return {
        "count": len(found) / strategy.num_replicas_in_sync,
        "hidden": hidden,
        "bytes": sorted(set(sizes)),
    }


def refusals(strategy):
    """What is said to training inside the scope."""
    model = make(strategy)
    x, y, _ = data()
    try:
        with strategy.scope():
            model.fit(x, y, verbose=0)
    except ValueError as error:
        return str(error)
    return ""


CASES = {
    "growth": {"recipe": GROWTH, "grow_from": 2, "weighted": True},
    "xla": {"jit": True, "dtype": "float32"},
    "stream": {
        "stream": True,
        "solver": Solver(preserve=0.15),
        "optimizer": "sgd",
    },
    "full": {"schedule": "full", "optimizer": None, "weighted": True},
}


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    found = {name: distance(strategy, **CASES[name]) for name in CASES}
    found["collectives"] = [collectives(strategy, n) for n in (4, 8)]
    found["refusal"] = refusals(strategy)
    json.dump(found, sys.stdout, default=float)


if __name__ == "__main__":
    main()
