"""The online step against the dense algorithm, and its signal at depth."""

import dataclasses
import itertools

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import problems
from tests.support import reference
from vdsh_tf.config import Solver
from vdsh_tf.solver import online


def step(problem, exact=True, **settings):
    """One online step on all samples of a problem."""
    settings = {"shared_step": False, "jacobi": False, **settings}
    solver = problems.solver_of(problem, "online", **settings)
    theta, classifier = problems.weights_of(problem)
    update = tf.function(online.step)(
        theta, classifier, problem.x, problem.y, solver, exact
    )
    new = [k - move for k, move in zip(theta, update.theta, strict=True)]
    return new, classifier - update.classifier, update


class OnlineTest(case.TestCase):
    def _check(self, got, want):
        theta, classifier, _ = got
        for mine, dense in zip(theta, want.theta, strict=True):
            self.assert_close(mine, dense.T, atol=1e-10)
        self.assert_close(classifier, want.classifier, atol=1e-10)

    def _problem(self, margin=0.0, seed=4):
        return dataclasses.replace(
            reference.make_problem(seed=seed), margin=margin, margin_weight=0.4
        )

    @parameterized.product(margin=(0.0, 0.3), code_steps=(1, 3))
    def test_papers_order_matches_dense_algorithm(self, margin, code_steps):
        problem = self._problem(margin)
        want = reference.start(problem)
        reference.iterate(problem, want, code_steps=code_steps)
        self._check(step(problem, code_steps=code_steps), want)

    @parameterized.parameters(0.0, 0.3)
    def test_jacobi_order_matches_dense_algorithm(self, margin):
        problem = self._problem(margin)
        want = reference.start(problem)
        reference.iterate(problem, want, jacobi=True)
        paper = reference.train(problem, 1)
        self._check(step(problem, jacobi=True), want)
        self.assertGreater(np.abs(want.theta[1] - paper.theta[1]).max(), 1e-6)

    @parameterized.parameters(0.0, 0.3)
    def test_metric_matches_dense_algorithm(self, margin):
        problem = self._problem(margin)
        want = reference.start(problem)
        reference.iterate(problem, want, jacobi=True, damping=0.05)
        plain = reference.start(problem)
        reference.iterate(problem, plain, jacobi=True)
        self._check(step(problem, jacobi=True, mean_damping=0.05), want)
        for with_metric, without in zip(want.theta, plain.theta, strict=True):
            moved = np.abs(with_metric - without).max()
            self.assertGreater(moved, 1e-6)

    @parameterized.parameters(0.0, 0.3)
    def test_sweeps_match_dense_algorithm(self, margin):
        problem = self._problem(margin)
        self._check(step(problem, sweeps=3), reference.train(problem, 3))

    @parameterized.product(margin=(0.0, 0.3), shared=(False, True))
    def test_lengths_handed_down_match_dense_algorithm(self, margin, shared):
        # A large gamma: no copy moves as far as the ReLU's kink.
        problem = dataclasses.replace(self._problem(margin), gamma=1e4)
        want = reference.start(problem)
        reference.iterate_without_search(problem, want, shared)
        theta, _, _ = step(
            problem,
            exact=False,
            jacobi=True,
            shared_step=shared,
            preserve_error_norm=True,
        )
        start = problem.theta
        for mine, dense, old in zip(theta, want.theta, start, strict=True):
            moved = np.abs(dense - old).max()
            self.assertGreater(moved, 1e-7)
            self.assert_close(mine, dense.T, atol=1e-9 * moved)

    def test_classifier_gradient_vanishes_at_the_ridge_solution(self):
        problem = self._problem()
        want = reference.train(problem, 1)
        _, _, update = step(problem, exact=False)
        z = np.array(want.z[-1])
        gradient = z.T @ (z @ problem.classifier - problem.y)
        gradient += problem.alpha_w * problem.classifier
        self.assert_close(
            update.classifier, gradient / len(problem.x), atol=1e-12
        )

    def test_trace_is_of_the_weights_before_the_step(self):
        problem = self._problem()
        want = reference.train(problem, 1)
        _, _, update = step(problem)
        f = np.array(reference.start(problem).z[-1])
        self.assert_close(update.trace.embedding, f, atol=1e-12)
        for m in range(1, len(problem.theta) + 1):
            norms = np.linalg.norm(np.array(want.u[m]), axis=1)
            self.assert_close(update.trace.residual[m - 1], norms.mean())
            self.assert_close(
                update.trace.dual[m - 1], problem.beta * norms.mean()
            )


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
        solver = Solver(margin=0.0, preserve=0.0, **settings).resolved("online")
        update = online.step(theta, classifier, x, y, solver)
        with tf.GradientTape() as tape:
            tape.watch(theta)
            z = x
            for kernel in theta:
                z = tf.nn.relu(tf.matmul(z, kernel))
            miss = tf.matmul(z, classifier) - y
            loss = 0.5 * tf.reduce_sum(tf.square(miss))
        return update.theta, tape.gradient(loss, theta), update.trace

    # In float32, codes and the errors handed down are 1e-9 apart.
    @parameterized.parameters(False, True)
    def test_error_reaches_the_front_of_a_deep_network(self, preserve):
        moves, gradient, trace = self._moves(32, preserve_error_norm=preserve)
        for m, (move, want) in enumerate(zip(moves, gradient, strict=True)):
            move, want = move.numpy().ravel(), want.numpy().ravel()
            move, want = move / np.abs(move).max(), want / np.abs(want).max()
            cosine = move @ want
            cosine /= np.linalg.norm(move) * np.linalg.norm(want)
            self.assertGreater(cosine, 0.99, msg=f"layer {m + 1}")
        share = float(trace.residual[0] / trace.residual[-1])
        if preserve:
            self.assertGreater(share, 0.1)
        else:
            self.assertLess(share, 1e-4)


if __name__ == "__main__":
    absltest.main()
