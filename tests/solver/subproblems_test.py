"""Each argmin against brute force."""

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import reference
from vdsh_tf.config import Solver
from vdsh_tf.solver import consensus
from vdsh_tf.solver import pulls
from vdsh_tf.solver import subproblems
from vdsh_tf.solver.weight_copies import SampleMatrix


def _rng():
    return np.random.default_rng(0)


class TopCodeTest(case.TestCase):
    # Fewer labels than bits, as many, and more.
    @parameterized.parameters(3, 5, 9)
    def test_matches_normal_equations(self, classes):
        rng = _rng()
        f, u = rng.normal(size=(2, 7, 5))
        y, w = rng.normal(size=(7, classes)), rng.normal(size=(5, classes))
        move = subproblems.solve_top_code(f - u, y, tf.constant(w), 1.5)
        for i in range(7):
            want = reference.top_code(f[i], u[i], y[i], w, 1.5)
            self.assert_close(f[i] - u[i] + move[i], want, rtol=0, atol=1e-12)

    @parameterized.parameters(3, 9)
    def test_no_perturbation_is_better(self, classes):
        rng = _rng()
        center = rng.normal(size=(7, 5))
        y, w = rng.normal(size=(7, classes)), rng.normal(size=(5, classes))

        def cost(z):
            fit = 0.5 * np.sum((z @ w - y) ** 2)
            return fit + 1.5 / 2 * np.sum((z - center) ** 2)

        move = subproblems.solve_top_code(center, y, tf.constant(w), 1.5)
        z = center + move.numpy()
        for _ in range(50):
            nudge = 1e-3 * rng.normal(size=z.shape)
            self.assertLess(cost(z), cost(z + nudge))

    def test_stays_when_labels_are_met(self):
        rng = _rng()
        f, w = rng.normal(size=(4, 5)), rng.normal(size=(5, 3))
        move = subproblems.solve_top_code(f, f @ w, tf.constant(w), 2.0)
        self.assert_close(move, 0 * f, atol=1e-12)


class HiddenCodeTest(case.TestCase):
    scale = 1.0

    def _problem(self):
        rng = _rng()
        center = np.maximum(rng.normal(size=(6, 8)), 0)
        copy = self.scale * rng.normal(size=(8, 5))
        target = rng.normal(size=(6, 5))
        return center, copy, target

    def _solve(self, steps, margin=None, shared=False, preserve=False):
        center, copy, target = self._problem()
        response = center @ copy
        solver = Solver(
            code_steps=steps, shared_step=shared, preserve_error_norm=preserve
        )
        move, change = subproblems.solve_hidden_code(
            target - response,
            SampleMatrix(tf.constant(copy)),
            center > 0,
            response,
            solver,
            margin,
        )
        return center + move, response + change

    @parameterized.parameters(1, 3)
    def test_matches_dense_steps(self, steps):
        center, copy, target = self._problem()
        z, _ = self._solve(steps)
        for row, c, t in zip(z.numpy(), center, target, strict=True):
            want = reference.hidden_code(c, 0 * c, t, copy.T, steps)
            self.assert_close(row, want, atol=1e-12)

    def test_step_length_is_the_best_on_the_line(self):
        center, copy, target = self._problem()
        z, _ = self._solve(1)
        on = center @ copy > 0

        def cost(z):
            linear = on * (z @ copy)
            fit = np.sum(on * (linear - target) ** 2, axis=1)
            return np.sum((z - center) ** 2, axis=1) + fit

        direction = z.numpy() - center
        best = cost(center + direction)
        for scale in (0.9, 0.99, 1.01, 1.1):
            self.assertTrue((best < cost(center + scale * direction)).all())

    def test_shared_step_is_the_best_for_all_samples_together(self):
        center, copy, target = self._problem()
        on = center @ copy > 0
        own = self._solve(1)[0].numpy() - center
        z, response = self._solve(1, shared=True)
        self.assert_close(response, z.numpy() @ copy, atol=1e-12)

        def cost(z):
            fit = np.sum(on * (on * (z @ copy) - target) ** 2)
            return np.sum((z - center) ** 2) + fit

        direction = z.numpy() - center
        best = cost(center + direction)
        for scale in (0.9, 0.99, 1.01, 1.1):
            self.assertLess(best, cost(center + scale * direction))
        # One factor for every sample: the direction is the negative gradient.
        gradient = (on * (center @ copy - target)) @ copy.T * (center > 0)
        factor = -direction[gradient != 0] / gradient[gradient != 0]
        self.assert_close(factor, np.full_like(factor, factor[0]), rtol=1e-9)
        self.assertFalse(np.allclose(own, direction))

    @parameterized.product(shared=(False, True), margin=(False, True))
    def test_hand_down_goes_the_same_way_without_a_line_search(
        self, shared, margin
    ):
        center, copy, target = self._problem()
        response = center @ copy
        wanted = np.sign(_rng().normal(size=response.shape))
        margin = subproblems.Margin(wanted, 0.3, 0.4) if margin else None
        error, below = target - response, center > 0
        copy = SampleMatrix(tf.constant(copy))
        pull = pulls.of_error(error, response, margin)
        handed = pulls.next_down(pull, copy, below, shared)
        move = handed.value().numpy()
        self.assert_close(
            handed.squares, np.sum(move**2, axis=1, keepdims=True), atol=1e-12
        )
        solver = Solver(code_steps=1, shared_step=shared)
        searched, _ = subproblems.solve_hidden_code(
            error, copy, below, response, solver, margin
        )
        searched = searched.numpy()
        misfit = (response > 0) * (response - target)
        if margin is not None:
            short = np.maximum(0.3 - wanted * response, 0)
            misfit -= 0.4 * wanted * short
        axis = None if shared else 1
        length, want = (
            np.sqrt(np.sum(v**2, axis)) for v in (move, 0.5 * misfit)
        )
        self.assert_close(length, want, atol=1e-12)
        # The same direction: equal once both have unit length.
        scale = np.sqrt(np.sum(searched**2, axis))
        if not shared:
            length, scale = length[:, None], scale[:, None]
        self.assert_close(move / length, searched / scale, atol=1e-12)

    def test_inactive_units_stay(self):
        center, _, _ = self._problem()
        z, _ = self._solve(2)
        self.assert_equal(z.numpy()[center == 0], 0 * center[center == 0])
        self.assertFalse(np.allclose(z.numpy()[center > 0], center[center > 0]))

    @parameterized.parameters(1, 3)
    def test_returned_response_is_that_of_z(self, steps):
        _, copy, _ = self._problem()
        z, response = self._solve(steps)
        self.assert_close(response, z.numpy() @ copy, atol=1e-12)

    def test_identity_layer_hands_the_error_down_whole(self):
        # 2s / (1 + s^2) is 1 at s = 1: a forward start doubles the target.
        f = np.array([[1.0, 2.0, 0.0, 3.0]])
        error = np.array([[0.1, -0.2, 0.0, 0.3]])
        move, _ = subproblems.solve_hidden_code(
            2 * error,
            SampleMatrix(tf.eye(4, dtype=tf.float64)),
            f > 0,
            f,
            Solver(code_steps=1),
        )
        self.assert_close(move, error, atol=1e-12)
        handed = pulls.next_down(
            pulls.of_error(2 * error, f),
            SampleMatrix(tf.eye(4, dtype=tf.float64)),
            f > 0,
            shared_step=False,
        )
        self.assert_close(handed.value(), error, atol=1e-12)


class WeightCopyTest(case.TestCase):
    def _problem(self):
        rng = _rng()
        return (
            rng.normal(size=(40, 3)),
            rng.normal(size=(40, 6)),
            rng.normal(size=(40, 6)),
        )

    def test_beats_a_fine_grid(self):
        x, target, response = self._problem()
        beta, gamma = 1.3, 2.1
        sq = np.sum(x**2, axis=1, keepdims=True)
        a = subproblems.solve_weight_copy(
            tf.constant(sq), target - response, response, beta, gamma
        )
        rho = gamma / sq

        def cost(s):
            fit = beta * (target - np.maximum(s, 0)) ** 2
            return fit + rho * (s - response) ** 2

        best = cost(response + sq * a.numpy())
        for s in np.linspace(-5, 5, 4001):
            self.assertTrue(
                (best <= cost(np.full_like(response, s)) + 1e-9).all()
            )

    @parameterized.parameters(0.0, 0.1, 3.0)
    def test_code_copy_beats_a_fine_grid(self, size):
        x, target, response = self._problem()
        wanted = _rng().integers(-1, 2, size=response.shape).astype(float)
        margin = subproblems.Margin(tf.constant(wanted), size, 0.7)
        beta, gamma = 1.3, 2.1
        sq = np.sum(x**2, axis=1, keepdims=True)
        a = subproblems.solve_code_copy(
            tf.constant(sq), target - response, response, beta, gamma, margin
        )

        def cost(s):
            short = np.abs(wanted) * np.maximum(0, size - wanted * s)
            fit = beta * (target - np.maximum(s, 0)) ** 2
            fit = fit + beta * 0.7 * short**2
            return fit + gamma / sq * (s - response) ** 2

        best = cost(response + sq * a.numpy())
        for s in np.linspace(-5, 5, 4001):
            self.assertTrue(
                (best <= cost(np.full_like(response, s)) + 1e-9).all()
            )

    def test_without_wanted_bits_the_margin_does_nothing(self):
        x, target, response = self._problem()
        margin = subproblems.Margin(tf.zeros_like(response), 0.5, 0.7)
        sq = np.sum(x**2, axis=1, keepdims=True)
        got = subproblems.solve_code_copy(
            tf.constant(sq), target - response, response, 2.0, 3.0, margin
        )
        want = subproblems.solve_weight_copy(
            tf.constant(sq), target - response, response, 2.0, 3.0
        )
        self.assert_close(got, want, atol=1e-12)

    def test_zero_input_moves_nothing(self):
        a = subproblems.solve_weight_copy(
            tf.zeros((2, 1), tf.float64),
            np.ones((2, 4)),
            np.ones((2, 4)),
            1.0,
            1.0,
        )
        self.assert_equal(a, np.zeros((2, 4)))


class ClassifierTest(case.TestCase):
    def test_matches_stacked_least_squares(self):
        rng = _rng()
        z, y = rng.normal(size=(20, 5)), rng.normal(size=(20, 3))
        got = subproblems.solve_classifier(
            tf.constant(z.T @ z), tf.constant(z.T @ y), 0.4
        )
        stacked = np.concatenate([z, np.sqrt(0.4) * np.eye(5)])
        rhs = np.concatenate([y, np.zeros((5, 3))])
        want = np.linalg.lstsq(stacked, rhs, rcond=None)[0]
        self.assert_close(got, want, atol=1e-10)

    def test_gradient_vanishes_at_the_solution(self):
        rng = _rng()
        z, y = rng.normal(size=(20, 5)), rng.normal(size=(20, 3))
        solver = Solver(alpha_w=0.4)
        sums = consensus.sums_of([], [], tf.constant(z), tf.constant(y))
        w = subproblems.solve_classifier(sums.zz, sums.zy, 0.4)
        zero = consensus.classifier_gradient(w, sums, solver)
        self.assert_close(zero, tf.zeros_like(w), atol=1e-12)
        other = consensus.classifier_gradient(w + 1.0, sums, solver)
        self.assertGreater(np.abs(other).max(), 0.1)


class WantedBitsTest(case.TestCase):
    def test_matches_definition_and_leaves_unlabelled_free(self):
        rng = _rng()
        w = rng.normal(size=(6, 4))
        y = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0.0]])
        got = subproblems.wanted_bits(tf.constant(y), tf.constant(w))
        want = [reference.wanted_bits(row, w) for row in y]
        self.assert_equal(got, np.array(want))
        self.assert_equal(got[2], np.zeros(6))


if __name__ == "__main__":
    absltest.main()
