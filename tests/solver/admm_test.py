"""The solver against the dense algorithm that stores every copy and dual."""

import dataclasses
import itertools

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import reference
from vdsh_tf import config
from vdsh_tf.solver import admm
from vdsh_tf.solver import objective
from vdsh_tf.solver import schedules
from vdsh_tf.solver import weight_copies


def _train(
    problem, iterations, batch_size, code_steps=1, jacobi=False, damping=None
):
    """Runs the solver; returns weights and the state of all samples."""
    theta = [None, *[tf.constant(t.T) for t in problem.theta]]
    weights = admm.start_weights(theta, tf.constant(problem.classifier))
    gamma = (None, *[problem.gamma] * len(problem.theta))
    penalties = admm.Penalties(
        problem.alpha_theta, problem.alpha_w, problem.beta, gamma,
        problem.margin, problem.margin_weight,
    )  # fmt: skip
    parts = [
        slice(i, i + batch_size) for i in range(0, len(problem.x), batch_size)
    ]
    states = [
        admm.start_samples(weights.theta, tf.constant(problem.x[part]))
        for part in parts
    ]
    along = None
    if damping is not None:
        along = [weight_copies.directions(x, damping) for x in states[0][0].z]
        along = along[:-1]
    solver = config.Solver(code_steps=code_steps, jacobi=jacobi)
    sample_step = tf.function(admm.sample_step)
    for _ in range(iterations):
        total = None
        for i, part in enumerate(parts):
            state, sums, _ = sample_step(
                weights, states[i][0], tf.constant(problem.y[part]),
                penalties, solver, states[i][1], along,
            )  # fmt: skip
            states[i] = state, None
            total = sums if total is None else admm.add_sums(total, sums)
        weights, _ = admm.consensus_step(weights, total, penalties)
    return weights, [state for state, _ in states], penalties


class SolverTest(case.TestCase):
    # Two iterations are the first to use a non-zero dual v.
    @parameterized.product(
        iterations=(1, 2, 20), batch_size=(12, 5, 1), margin=(0.0, 0.3)
    )
    def test_matches_dense_algorithm(self, iterations, batch_size, margin):
        problem = dataclasses.replace(
            reference.make_problem(), margin=margin, margin_weight=0.4
        )
        want = reference.train(problem, iterations)
        got, states, _ = _train(problem, iterations, batch_size)
        for m, theta in enumerate(want.theta, start=1):
            self.assert_close(
                got.theta[m], theta.T, rtol=0, atol=1e-10, msg=f"theta_{m}"
            )
            for name, rows in (("z", want.z), ("u", want.u)):
                mine = tf.concat([getattr(s, name)[m] for s in states], 0)
                self.assert_close(
                    mine, np.array(rows[m]), rtol=0, atol=1e-10, msg=name
                )
        self.assert_close(got.classifier, want.classifier, rtol=0, atol=1e-10)

    def test_matches_dense_algorithm_with_more_code_steps(self):
        problem = reference.make_problem(seed=3)
        want = reference.start(problem)
        for _ in range(4):
            reference.iterate(problem, want, code_steps=3)
        got, _, _ = _train(problem, 4, 12, code_steps=3)
        for m, theta in enumerate(want.theta, start=1):
            self.assert_close(got.theta[m], theta.T, rtol=0, atol=1e-10)

    @parameterized.parameters(12, 5)
    def test_jacobi_order_matches_dense_algorithm(self, batch_size):
        problem = dataclasses.replace(
            reference.make_problem(seed=4), margin=0.3, margin_weight=0.4
        )
        want = reference.start(problem)
        reference.iterate(problem, want, jacobi=True)
        paper = reference.train(problem, 1)
        got, _, _ = _train(problem, 1, batch_size, jacobi=True)
        for m, theta in enumerate(want.theta, start=1):
            self.assert_close(got.theta[m], theta.T, rtol=0, atol=1e-10)
        self.assertGreater(np.abs(want.theta[1] - paper.theta[1]).max(), 1e-6)

    @parameterized.parameters(0.0, 0.3)
    def test_metric_matches_dense_algorithm(self, margin):
        problem = dataclasses.replace(
            reference.make_problem(seed=4), margin=margin, margin_weight=0.4
        )
        want = reference.start(problem)
        reference.iterate(problem, want, jacobi=True, damping=0.05)
        plain = reference.start(problem)
        reference.iterate(problem, plain, jacobi=True)
        got, _, _ = _train(problem, 1, 12, jacobi=True, damping=0.05)
        for m, theta in enumerate(want.theta, start=1):
            self.assert_close(got.theta[m], theta.T, rtol=0, atol=1e-10)
            moved = np.abs(theta - plain.theta[m - 1]).max()
            self.assertGreater(moved, 1e-6)

    def test_training_moves_the_weights(self):
        problem = reference.make_problem()
        got, _, _ = _train(problem, 2, 12)
        for m, theta in enumerate(problem.theta, start=1):
            self.assertGreater(np.abs(got.theta[m] - theta.T).max(), 1e-4)

    @parameterized.parameters(1, 2, 5)
    def test_augmented_lagrangian(self, iterations):
        problem = reference.make_problem()
        want = reference.train(problem, iterations)
        weights, states, penalties = _train(problem, iterations, 12)
        got = objective.augmented_lagrangian(
            weights, states[0], tf.constant(problem.y), penalties
        )
        self.assert_close(
            got, reference.augmented_lagrangian(problem, want), rtol=1e-10
        )

    def test_objective(self):
        problem = reference.make_problem()
        theta = [None, *[tf.constant(t.T) for t in problem.theta]]
        state, _ = admm.start_samples(theta, tf.constant(problem.x))
        got = objective.objective(
            state.z[-1], problem.y, theta, tf.constant(problem.classifier),
            problem.alpha_theta, problem.alpha_w,
        )  # fmt: skip
        want = reference.objective(problem, problem.theta, problem.classifier)
        self.assert_close(got, want, rtol=1e-12)

    def test_norms_of_residuals_and_duals(self):
        problem = reference.make_problem()
        before = reference.train(problem, 2)
        want = reference.train(problem, 3)
        weights, states, penalties = _train(problem, 3, 12)
        duals = objective.weight_dual_norms(weights, states[0], penalties)
        for m in range(1, len(problem.theta) + 1):
            norms = [np.linalg.norm(v) for v in want.duals[m - 1]]
            self.assert_close(duals[m - 1], problem.gamma * np.mean(norms))
        weights, states, penalties = _train(problem, 2, 12)
        _, _, trace = admm.sample_step(
            weights, states[0], tf.constant(problem.y), penalties,
            config.Solver(),
        )  # fmt: skip
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
        inputs = tf.constant([[1.0, 2.0], [0.0, 1.0]], tf.float64)
        z = (inputs, tf.ones([2, 3]))
        gamma = admm.relative_gamma(z, beta=4.0, copy_step=0.2)
        sq_norm = (5.0 + 1.0) / 2
        share = 4.0 * sq_norm / (4.0 * sq_norm + gamma[1])
        self.assert_close(share, 0.2)


class DepthTest(case.TestCase):
    def _moves(self, layers, **settings):
        """Consensus moves and the gradient, from a He start in float32."""
        rng = np.random.default_rng(0)
        x = np.abs(rng.normal(size=(32, 20)))
        x = tf.constant(x / np.linalg.norm(x, axis=1, keepdims=True), "float32")
        y = tf.one_hot(rng.integers(0, 4, size=32), 4)
        sizes = [20] + [64] * layers
        theta = [
            tf.constant(rng.normal(size=s) * np.sqrt(2 / s[0]), "float32")
            for s in itertools.pairwise(sizes)
        ]
        classifier = tf.constant(0.1 * rng.normal(size=(64, 4)), "float32")
        solver = config.solver_of("online", margin=0.0, **settings)
        _, moves, _, trace = schedules.online_step(
            (None, *theta), classifier, x, y, solver
        )
        with tf.GradientTape() as tape:
            tape.watch(theta)
            z = x
            for kernel in theta:
                z = tf.nn.relu(tf.matmul(z, kernel))
            miss = tf.matmul(z, classifier) - y
            loss = 0.5 * tf.reduce_sum(tf.square(miss))
        return moves[1:], tape.gradient(loss, theta), trace

    # In float32, codes and the errors handed down are 1e-9 apart.
    @parameterized.parameters(False, True)
    def test_error_reaches_the_front_of_a_deep_network(self, keep_error):
        moves, gradient, trace = self._moves(32, keep_error=keep_error)
        for m, (move, want) in enumerate(zip(moves, gradient, strict=True)):
            move, want = move.numpy().ravel(), want.numpy().ravel()
            move, want = move / np.abs(move).max(), want / np.abs(want).max()
            cosine = move @ want
            cosine /= np.linalg.norm(move) * np.linalg.norm(want)
            self.assertGreater(cosine, 0.99, msg=f"layer {m + 1}")
        share = float(trace.residual[0] / trace.residual[-1])
        if keep_error:
            self.assertGreater(share, 0.1)
        else:
            self.assertLess(share, 1e-4)


if __name__ == "__main__":
    absltest.main()
