"""Workers that share a batch agree with one that has it alone."""

import itertools
import threading

import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.config import Solver
from vdsh_tf.solver import groups
from vdsh_tf.solver import online
from vdsh_tf.solver import several

DIMS = (7, 6, 6, 6, 5)
CLASSES = 3

OPTIONS = {
    "hand_down": ({}, False),
    "deep": ({"margin": 0.0}, False),
    "own_lengths": ({"shared_step": False}, False),
    "line_search": ({"preserve_error_norm": False}, False),
    "code_steps": ({"code_steps": 2}, False),
    "paper_order": ({"jacobi": False}, False),
    "mean_damping": ({"mean_damping": 0.1}, False),
    "sweeps": ({"sweeps": 2}, False),
    "penalty": ({"alpha_theta": 0.3}, False),
    "gamma": ({"gamma": 2.0}, False),
    "exact": ({}, True),
}


class Workers:
    """Threads in the place of workers: `reduce` waits for all of them."""

    def __init__(self, count):
        self.barrier = threading.Barrier(count, timeout=60)
        self.said = [None] * count
        self.calls = 0

    def group(self, number):
        def reduce(tensors):
            self.said[number] = tensors
            self.barrier.wait()
            added = [sum(parts) for parts in zip(*self.said, strict=True)]
            self.calls += number == 0
            self.barrier.wait()
            return added

        return groups.Group(reduce, measure=lambda rows: [tf.reduce_sum(rows)])

    def run(self, function):
        found = [None] * len(self.said)

        def work(number):
            try:
                found[number] = function(number, self.group(number))
            except BaseException:
                self.barrier.abort()
                raise

        threads = [
            threading.Thread(target=work, args=(i,))
            for i in range(len(self.said))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


def problem(rows, dims=DIMS, seed=0):
    rng = np.random.default_rng(seed)
    x = tf.constant(rng.random((rows, dims[0])))
    y = tf.one_hot(rng.integers(0, CLASSES, rows), CLASSES, dtype=tf.float64)
    theta = tuple(
        tf.constant(rng.normal(size=shape))
        for shape in itertools.pairwise(dims)
    )
    classifier = tf.constant(rng.normal(size=(dims[-1], CLASSES)))
    weight = tf.constant(rng.integers(0, 3, rows), tf.float64)
    return theta, classifier, x, y, weight


def together(cuts, theta, classifier, x, y, solver, exact, weight):
    """Updates of all workers, whose rows lie between `cuts`, and calls."""
    workers = Workers(len(cuts) - 1)

    def work(number, group):
        own = slice(cuts[number], cuts[number + 1])
        part = None if weight is None else weight[own]
        return several.step(
            theta, classifier, x[own], y[own], solver, exact, part, group
        )

    return workers.run(work), workers.calls


class SeveralTest(case.TestCase):
    @parameterized.product(
        name=tuple(OPTIONS), cuts=((0, 6, 12), (0, 1, 1, 12)), weighted=(0, 1)
    )
    def test_equals_one_worker(self, name, cuts, weighted):
        settings, exact = OPTIONS[name]
        # So few rows make a badly conditioned line 14 with less.
        solver = Solver(goal="class", alpha_w=10.0, **settings).resolved(
            "online"
        )
        theta, classifier, x, y, weight = problem(12)
        weight = weight if weighted else None
        want = online.step(theta, classifier, x, y, solver, exact, weight)
        found, _ = together(
            cuts, theta, classifier, x, y, solver, exact, weight
        )
        for got in found:
            for a, b in zip(got.theta, want.theta, strict=True):
                self.assert_close(a, b, atol=1e-10)
            self.assert_close(got.classifier, want.classifier, atol=1e-10)
            self.assert_close(
                got.trace.residual, want.trace.residual, atol=1e-10
            )
            self.assert_close(got.trace.dual, want.trace.dual, atol=1e-10)
            self.assert_close(
                got.trace.measured,
                [tf.reduce_sum(want.trace.embedding)],
                atol=1e-10,
            )
        self.assertEqual(len(found), len(cuts) - 1)

    @parameterized.parameters(1, 2, 9)
    def test_two_all_reduces_at_any_depth(self, layers):
        dims = (7,) * layers + (5,)
        solver = Solver(goal="class").resolved("online")
        theta, classifier, x, y, _ = problem(8, dims)
        _, calls = together(
            (0, 3, 8), theta, classifier, x, y, solver, False, None
        )
        self.assertEqual(calls, 2)

    def test_a_worker_without_an_active_unit(self):
        solver = Solver(goal="class").resolved("online")
        theta, classifier, x, y, _ = problem(8)
        # Rows that no unit of the second layer responds to.
        dead = -tf.abs(theta[1])
        theta = (tf.abs(theta[0]), tf.where(tf.range(6) < 3, dead, theta[1]))
        theta += problem(8)[0][2:]
        x = tf.concat([x[:4] * 1e-9, x[4:]], axis=0)
        want = online.step(theta, classifier, x, y, solver, False, None)
        found, _ = together(
            (0, 4, 8), theta, classifier, x, y, solver, False, None
        )
        for a, b in zip(found[1].theta, want.theta, strict=True):
            self.assert_close(a, b, atol=1e-10)

    def test_lengths_beyond_float32(self):
        # With lengths of its own, a worker's errors keep their size through
        # sixty layers of 1e-2; with lengths 1 they would be 1e-120.
        lengths = [tf.constant(100.0)] * 60
        products, squares, pulled = groups.chain(lengths, tf.constant(4.0))
        factors = groups.corrections(products, 2 * squares, 2 * pulled)
        self.assert_close(factors, np.ones(60), atol=1e-12)
