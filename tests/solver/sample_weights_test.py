"""A sample of weight w counts as w equal samples, in both algorithms."""

import dataclasses

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import problems
from tests.support import reference
from vdsh_tf.solver import full
from vdsh_tf.solver import online

WEIGHT = np.array([1, 2, 3, 1, 0, 2, 1, 1, 4, 1, 2, 1])


def _repeated(problem):
    """The same problem with each sample as often as it weighs."""
    return dataclasses.replace(
        problem,
        x=np.repeat(problem.x, WEIGHT, axis=0),
        y=np.repeat(problem.y, WEIGHT, axis=0),
    )


class OnlineTest(case.TestCase):
    def _update(self, problem, weight, exact, **settings):
        settings = {"gamma": None, **settings}
        return online.step(
            *problems.weights_of(problem),
            tf.constant(problem.x),
            tf.constant(problem.y),
            problems.solver_of(problem, "online", **settings),
            exact,
            None if weight is None else tf.constant(weight),
        )

    @parameterized.product(
        settings=(
            {},
            {"preserve_error_norm": False},
            {"mean_damping": 0.1},
            {"shared_step": False, "jacobi": False},
            {"jacobi": False, "code_steps": 2},
            {"sweeps": 2, "shared_step": False},
        ),
        exact=(False, True),
    )
    def test_equals_repeated_samples(self, settings, exact):
        problem = dataclasses.replace(
            reference.make_problem(), margin=0.3, margin_weight=0.2
        )
        got = self._update(problem, WEIGHT, exact, **settings)
        want = self._update(_repeated(problem), None, exact, **settings)
        plain = self._update(problem, None, exact, **settings)
        for a, b, c in zip(got.theta, want.theta, plain.theta, strict=True):
            self.assert_close(a, b, atol=1e-12)
            self.assertGreater(np.abs(a - c).max(), 1e-9)
        self.assert_close(got.classifier, want.classifier, atol=1e-10)


class FullTest(case.TestCase):
    @parameterized.parameters(1, 3)
    def test_equals_the_dense_algorithm_on_repeated_samples(self, iterations):
        problem = reference.make_problem()
        want = reference.train(_repeated(problem), iterations)
        solver = problems.solver_of(problem, "full")
        gamma = (problem.gamma,) * len(problem.theta)
        weights = full.start_weights(*problems.weights_of(problem))
        x, y = tf.constant(problem.x), tf.constant(problem.y)
        weight = tf.constant(WEIGHT.astype(float))[:, None]
        state = full.start_samples(weights.theta, x)
        for _ in range(iterations):
            state, sums, _ = full.sample_step(
                weights, x, state, y, gamma, solver, weight
            )
            weights, _ = full.consensus_step(weights, sums, gamma, solver)
        for mine, dense in zip(weights.theta, want.theta, strict=True):
            self.assert_close(mine, dense.T, atol=1e-10)
        self.assert_close(weights.classifier, want.classifier, atol=1e-10)


if __name__ == "__main__":
    absltest.main()
