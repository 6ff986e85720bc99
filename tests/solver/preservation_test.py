"""Targets beside the labels: their projection, and the step with them."""

import dataclasses

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.solver import full_test
from tests.support import case
from tests.support import problems
from tests.support import reference
from vdsh_tf.config import Solver
from vdsh_tf.solver import online
from vdsh_tf.solver import preservation
from vdsh_tf.solver import subproblems


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


def _problem(several, margin=0.0, **settings):
    """A problem whose last two targets are no labels."""
    problem = reference.make_problem(num_classes=5, seed=2)
    rng = np.random.default_rng(3)
    p, offset = rng.normal(size=(6, 2)), rng.normal(size=2)
    labels = problem.y[:, :3]
    if several:
        labels = (rng.random(labels.shape) < 0.5).astype(np.float64)
    y = preservation.targets(labels, problem.x, p, offset).numpy()
    return dataclasses.replace(
        problem, y=y, margin=margin, margin_weight=0.4, others=2, **settings
    )


_PRESERVE = {"preserve": 0.1, "preserve_rank": 2}


def _step(problem, exact, **settings):
    """One online step from the problem's weights."""
    solver = problems.solver_of(problem, "online", **_PRESERVE, **settings)
    theta, classifier = problems.weights_of(problem)
    y = tf.constant(problem.y)
    update = online.step(theta, classifier, problem.x, y, solver, exact)
    moved = zip(theta, update.theta, strict=True)
    return [kernel - move for kernel, move in moved], update


class StepTest(case.TestCase):
    def test_targets_stand_beside_labels(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(7, 4)), rng.integers(0, 2, (7, 3)) * 1.0
        p, offset = rng.normal(size=(4, 2)), rng.normal(size=2)
        got = preservation.targets(y, x, p, offset).numpy()
        self.assert_close(got[:, 3:], x @ p - offset, atol=1e-12)
        self.assert_equal(got[:, :3], y)

    @parameterized.product(several=(False, True), margin=(0.0, 0.3))
    def test_step_matches_dense_algorithm(self, several, margin):
        problem = _problem(several, margin)
        want = reference.start(problem)
        reference.iterate(problem, want, jacobi=True)
        theta, update = _step(problem, True, shared_step=False, jacobi=True)
        for mine, dense in zip(theta, want.theta, strict=True):
            self.assert_close(mine, dense.T, atol=1e-10)
        classifier = tf.constant(problem.classifier) - update.classifier
        self.assert_close(classifier, want.classifier, atol=1e-10)

    @parameterized.product(
        several=(False, True), margin=(0.0, 0.3), shared=(False, True)
    )
    def test_step_without_searches_matches(self, several, margin, shared):
        # A large gamma: no copy moves as far as the ReLU's kink.
        problem = _problem(several, margin, gamma=1e4)
        want = reference.start(problem)
        reference.iterate_without_search(problem, want, shared)
        theta, _ = _step(
            problem,
            False,
            jacobi=True,
            shared_step=shared,
            preserve_error_norm=True,
        )
        before = problem.theta
        for mine, dense, old in zip(theta, want.theta, before, strict=True):
            moved = np.abs(dense - old).max()
            self.assertGreater(moved, 1e-7)
            self.assert_close(mine, dense.T, atol=1e-9 * moved)

    @parameterized.product(
        several=(False, True), margin=(0.0, 0.3), batch_size=(12, 5)
    )
    def test_full_schedule_matches(self, several, margin, batch_size):
        problem = _problem(several, margin)
        want = reference.train(problem, 3)
        got = full_test.train(problem, 3, batch_size, **_PRESERVE).weights
        for mine, dense in zip(got.theta, want.theta, strict=True):
            self.assert_close(mine, dense.T, atol=1e-10)
        self.assert_close(got.classifier, want.classifier, atol=1e-10)

    @parameterized.parameters(False, True)
    def test_margin_counts_targets_as_they_are(self, several):
        problem = _problem(several)
        got = subproblems.wanted_bits(
            tf.constant(problem.y), tf.constant(problem.classifier), 2
        )
        want = [
            reference.wanted_bits(y, problem.classifier, 2) for y in problem.y
        ]
        self.assert_equal(got, want)
        labels_alone = [
            reference.wanted_bits(y[:3], problem.classifier[:, :3])
            for y in problem.y
        ]
        self.assertTrue(np.any(np.array(want) != labels_alone))


if __name__ == "__main__":
    absltest.main()
