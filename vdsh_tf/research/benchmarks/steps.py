"""Cost of one online training step: growth with size, share of matmuls."""

import itertools
import time

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf import optimizers
from vdsh_tf.config import Solver
from vdsh_tf.model import VDSH
from vdsh_tf.research.baselines import backprop

CLASSES = 10


def training_step(
    dim, layers, width, bits, batch, jit_compile=False, goal="class"
):
    """A compiled function that trains on one fixed batch of random rows.

    Args:
        dim, layers, width, bits, batch: of network and batch.
        jit_compile: whether XLA compiles the step.
        goal: "class" predicts labels alone, as back-propagation does here;
            "search" 32 targets more.
    """
    model = VDSH(
        layers,
        width,
        bits,
        CLASSES,
        solver=Solver(goal=goal),
        grow_from=layers,
        normalization="unit",
    )
    model.compile(optimizers.adam(1e-5))
    model.build((None, dim))
    x, y = _batch(dim, batch)
    return _compiled(model, (x, y), "objective", jit_compile)


def backprop_step(dim, layers, width, bits, batch, jit_compile=False):
    """The same network and batch in plain Keras, by Adam.

    Its first layer scales raw rows to unit length, as VDSH's encoder does.

    Args:
        dim, layers, width, bits, batch: of network and batch.
        jit_compile: whether XLA compiles the step.
    """
    model = backprop.build(dim, CLASSES, layers, width, bits, "looks_linear")
    x, y = _batch(dim, batch)
    first = keras.layers.UnitNormalization()
    model = keras.Sequential([keras.Input((dim,)), first, *model.layers])
    model.compile(
        keras.optimizers.Adam(1e-5),
        loss=backprop.half_squared_error,
        metrics=["accuracy"],
    )
    return _compiled(model, (x, tf.one_hot(y, CLASSES)), "loss", jit_compile)


def pair(shape, rival) -> dict:
    """Seconds of a step of VDSH and one of Adam, both by XLA, in turns.

    Args:
        shape: dim, layers, width, bits, batch.
        rival: "labels": both predict labels alone; "search": VDSH has the
            targets of goal search, too; "control": Adam in place of VDSH.

    Returns:
        Medians as `first` and `second`.
    """
    if rival == "control":
        first = backprop_step(*shape, jit_compile=True)
    else:
        goal = "search" if rival == "search" else "class"
        first = training_step(*shape, jit_compile=True, goal=goal)
    second = backprop_step(*shape, jit_compile=True)
    return seconds_each({"first": first, "second": second}, rounds=41)


def _batch(dim, batch):
    rng = np.random.default_rng(0)
    x = tf.constant(rng.random((batch, dim)), tf.float32)
    return x, tf.constant(np.arange(batch) % CLASSES)


def _compiled(model, data, log, jit_compile):
    model.optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=jit_compile)
    def step():
        return model.train_step(data)[log]

    return step


def bare_matmuls(dim, layers, width, bits, batch):
    """The same step's matmuls alone: three of each layer's shape.

    All of them run, because all results are returned.
    """
    dims = [dim] + [width] * (layers - 1) + [bits]
    shapes = list(itertools.pairwise(dims))
    below = [tf.random.normal([batch, d]) for d in dims[:-1]]
    above = [tf.random.normal([batch, d]) for d in dims[1:]]
    kernels = [tf.random.normal(shape) for shape in shapes]

    @tf.function
    def step():
        out = []
        for m, kernel in enumerate(kernels):
            out.append(tf.matmul(below[m], kernel))
            if m > 0:
                out.append(tf.matmul(above[m], kernel, transpose_b=True))
            out.append(tf.matmul(below[m], above[m], transpose_a=True))
        return out

    return step


def layer_chain(layers, width, batch, scanned):
    """A step's products of equal layers, one layer after the other, by XLA.

    Up through all layers, then down with the outer product of each.

    Args:
        layers, width, batch: of the chain.
        scanned: whether one stacked kernel is scanned, which keeps the graph
            small at any depth; False writes every layer out.
    """
    x = tf.random.stateless_normal([batch, width], (0, 0))
    kernels = tf.random.stateless_normal([layers, width, width], (0, 1))
    kernels *= width**-0.5

    def up(z, kernel):
        return tf.nn.tanh(tf.matmul(z, kernel))

    def down(carry, part):
        z, kernel = part
        g = tf.matmul(carry[0], kernel, transpose_b=True)
        return g, tf.matmul(z, g, transpose_a=True)

    @tf.function(jit_compile=True)
    def step():
        if scanned:
            zs = tf.scan(up, kernels, x)
            start = (zs[-1], tf.zeros([width, width]))
            return tf.scan(down, (zs, kernels), start, reverse=True)[1:]
        zs = list(itertools.accumulate(tf.unstack(kernels), up, initial=x))[1:]
        carry, made = (zs[-1],), []
        for part in zip(zs[::-1], tf.unstack(kernels)[::-1], strict=True):
            carry = down(carry, part)
            made.append(carry[1:])
        return tuple(tf.stack(p[::-1]) for p in zip(*made, strict=True))

    return step


def seconds_each(steps: dict, rounds: int = 7, calls: int = 5) -> dict:
    """Median seconds of a call of each function, taken in turns."""
    for step in steps.values():
        for _ in range(3):
            _wait(step())
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(calls):
                result = step()
            _wait(result)
            taken[name].append((time.perf_counter() - start) / calls)
    return {name: float(np.median(t)) for name, t in taken.items()}


def first_call(step) -> float:
    """Seconds of a function's first call, tracing and compiling included."""
    start = time.perf_counter()
    _wait(step())
    return time.perf_counter() - start


def exponent(sizes, seconds) -> float:
    """Slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _wait(result):
    for tensor in tf.nest.flatten(result):
        tensor.numpy()
