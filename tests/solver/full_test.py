"""Algorithm 1 against the dense one that stores every copy and dual."""

import dataclasses

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import problems
from tests.support import reference
from vdsh_tf.config import Solver
from vdsh_tf.solver import consensus
from vdsh_tf.solver import full
from vdsh_tf.solver import objective


def add_sums(left, right):
    return tf.nest.map_structure(tf.add, left, right)


@dataclasses.dataclass
class Trained:
    """What the solver left, and what its functions need to go on."""

    weights: full.Weights
    states: list
    inputs: list
    labels: list
    gamma: tuple
    solver: Solver

    @property
    def first_batch(self) -> tuple:
        """What functions of one batch take."""
        batch = (self.inputs[0], self.states[0], self.labels[0])
        return (self.weights, *batch, self.gamma, self.solver)


def train(problem, iterations, batch_size, **settings) -> Trained:
    """Runs the solver in batches."""
    weights = full.start_weights(*problems.weights_of(problem))
    gamma = (problem.gamma,) * len(problem.theta)
    solver = problems.solver_of(problem, "full", **settings)
    starts = range(0, len(problem.x), batch_size)
    inputs = [tf.constant(problem.x[i : i + batch_size]) for i in starts]
    labels = [tf.constant(problem.y[i : i + batch_size]) for i in starts]
    states = [full.start_samples(weights.theta, x) for x in inputs]
    sample_step = tf.function(full.sample_step)
    for _ in range(iterations):
        total = None
        for i, (x, y) in enumerate(zip(inputs, labels, strict=True)):
            states[i], sums, _ = sample_step(
                weights, x, states[i], y, gamma, solver
            )
            total = sums if total is None else add_sums(total, sums)
        weights, _ = full.consensus_step(weights, total, gamma, solver)
    return Trained(weights, states, inputs, labels, gamma, solver)


class FullTest(case.TestCase):
    # Two iterations are the first to use a non-zero dual v.
    @parameterized.product(
        iterations=(1, 2, 20), batch_size=(12, 5, 1), margin=(0.0, 0.3)
    )
    def test_matches_dense_algorithm(self, iterations, batch_size, margin):
        problem = dataclasses.replace(
            reference.make_problem(), margin=margin, margin_weight=0.4
        )
        want = reference.train(problem, iterations)
        got = train(problem, iterations, batch_size)
        for m, theta in enumerate(want.theta, start=1):
            self.assert_close(
                got.weights.theta[m - 1], theta.T, atol=1e-10, msg=f"theta_{m}"
            )
            for name, rows in (("z", want.z), ("u", want.u)):
                mine = [getattr(state, name)[m - 1] for state in got.states]
                self.assert_close(
                    tf.concat(mine, 0), np.array(rows[m]), atol=1e-10, msg=name
                )
        self.assert_close(got.weights.classifier, want.classifier, atol=1e-10)

    def test_matches_dense_algorithm_with_more_code_steps(self):
        problem = reference.make_problem(seed=3)
        want = reference.start(problem)
        for _ in range(4):
            reference.iterate(problem, want, code_steps=3)
        got = train(problem, 4, 12, code_steps=3)
        for mine, theta in zip(got.weights.theta, want.theta, strict=True):
            self.assert_close(mine, theta.T, atol=1e-10)

    def test_training_moves_the_weights(self):
        problem = reference.make_problem()
        got = train(problem, 2, 12)
        for mine, theta in zip(got.weights.theta, problem.theta, strict=True):
            self.assertGreater(np.abs(mine - theta.T).max(), 1e-4)

    @parameterized.parameters(1, 2, 5)
    def test_augmented_lagrangian(self, iterations):
        problem = reference.make_problem()
        want = reference.train(problem, iterations)
        got = train(problem, iterations, 12)
        value = objective.augmented_lagrangian(*got.first_batch)
        self.assert_close(
            value, reference.augmented_lagrangian(problem, want), rtol=1e-10
        )

    def test_objective(self):
        problem = reference.make_problem()
        theta, classifier = problems.weights_of(problem)
        state = full.start_samples(theta, tf.constant(problem.x))
        got = objective.objective(
            state.z[-1],
            problem.y,
            theta,
            classifier,
            problems.solver_of(problem, "full"),
        )
        want = reference.objective(problem, problem.theta, problem.classifier)
        self.assert_close(got, want, rtol=1e-12)

    def test_norms_of_residuals_and_duals(self):
        problem = reference.make_problem()
        before = reference.train(problem, 2)
        want = reference.train(problem, 3)
        got = train(problem, 3, 12)
        duals = objective.weight_dual_norms(
            got.weights, got.inputs[0], got.states[0], got.gamma
        )
        for m in range(1, len(problem.theta) + 1):
            norms = [np.linalg.norm(v) for v in want.duals[m - 1]]
            self.assert_close(duals[m - 1], problem.gamma * np.mean(norms))
        got = train(problem, 2, 12)
        _, _, trace = full.sample_step(*got.first_batch)
        for m in range(1, len(problem.theta) + 1):
            # u grew by z - f, so the residual is the dual's change.
            change = np.array(want.u[m]) - np.array(before.u[m])
            self.assert_close(
                trace.residual[m - 1],
                np.mean(np.linalg.norm(change, axis=1)),
            )
            self.assert_close(
                trace.dual[m - 1],
                problem.beta * np.mean(np.linalg.norm(want.u[m], axis=1)),
            )

    def test_relative_gamma_sets_the_mean_step(self):
        solver = Solver(beta=4.0, copy_step=0.2).resolved("full")
        sq_norm = (5.0 + 1.0) / 2
        (gamma,) = consensus.relative_gamma([sq_norm], solver)
        share = 4.0 * sq_norm / (4.0 * sq_norm + gamma)
        self.assert_close(share, 0.2, atol=1e-6)


if __name__ == "__main__":
    absltest.main()
