"""Targets beside the labels: their projection, and the step with them."""

import dataclasses

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import problems
from tests.support import reference
from vdsh_tf.config import Solver
from vdsh_tf.solver import online
from vdsh_tf.solver import preservation


def _solver(rank=3, weight=0.2):
    return Solver(preserve=weight, preserve_rank=rank).resolved("online")


class ProjectionTest(case.TestCase):
    def test_matches_the_eigenvectors_of_the_covariance(self):
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(500, 12)) * 2.0 ** -np.arange(12) + 3.0
        p, offset = preservation.projection(rows, _solver())
        got = rows @ p - offset
        values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
        want = (rows - rows.mean(axis=0)) @ vectors[:, ::-1][:, :3]
        values = values[::-1][:3]
        want *= 0.2 * (values / values[0]) ** 0.25 / np.sqrt(values)
        want *= np.sign(np.sum(want * got, axis=0))
        self.assert_close(got, want, atol=1e-4)
        self.assert_close(got.mean(axis=0), np.zeros(3), atol=1e-5)
        self.assert_close(got[:, 0].std(), 0.2, rtol=1e-5)

    @parameterized.parameters(((4, 2),), ((2, 9),), ((50, 5),))
    def test_fewer_components_than_asked_for(self, shape):
        rows = np.random.default_rng(1).normal(size=shape)
        p, offset = preservation.projection(rows, _solver(rank=8))
        self.assertEqual(p.shape, (shape[1], 8))
        self.assertTrue(np.isfinite(p).all() and np.isfinite(offset).all())
        self.assert_equal(p[:, min(shape) :], 0 * p[:, min(shape) :])

    def test_a_weight_of_two_is_the_row_twice(self):
        rng = np.random.default_rng(2)
        rows, weight = rng.normal(size=(40, 6)), rng.integers(0, 4, 40)
        got = preservation.projection(rows, _solver(), weight)
        repeated = np.repeat(rows, weight, axis=0)
        want = preservation.projection(repeated, _solver())
        for g, w in zip(got, want, strict=True):
            self.assert_close(g, w, atol=1e-10)

    def test_constant_rows_have_no_components(self):
        p, offset = preservation.projection(np.ones((20, 6)), _solver())
        self.assert_equal(p, np.zeros((6, 3)))
        self.assert_equal(offset, np.zeros(3))


class StepTest(case.TestCase):
    @parameterized.parameters(0.0, 0.3)
    def test_step_with_more_targets_matches_dense_algorithm(self, margin):
        problem = reference.make_problem(num_classes=5, seed=2)
        rng = np.random.default_rng(3)
        p, offset = rng.normal(size=(6, 2)), rng.normal(size=2)
        labels = problem.y[:, :3]
        y = preservation.targets(labels, problem.x, p, offset).numpy()
        self.assert_close(y[:, 3:], problem.x @ p - offset, atol=1e-12)
        self.assert_equal(y[:, :3], labels)
        problem = dataclasses.replace(
            problem, y=y, margin=margin, margin_weight=0.4, others=2
        )
        want = reference.start(problem)
        reference.iterate(problem, want, jacobi=True)
        solver = problems.solver_of(
            problem,
            "online",
            shared_step=False,
            jacobi=True,
            preserve=0.1,
            preserve_rank=2,
        )
        theta, classifier = problems.weights_of(problem)
        update = online.step(
            theta, classifier, problem.x, tf.constant(y), solver, True
        )
        pairs = zip(theta, update.theta, want.theta, strict=True)
        for kernel, move, dense in pairs:
            self.assert_close(kernel - move, dense.T, atol=1e-10)
        self.assert_close(
            classifier - update.classifier, want.classifier, atol=1e-10
        )


if __name__ == "__main__":
    absltest.main()
