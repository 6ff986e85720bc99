"""Exact steps of the shallow methods, against trying everything."""

import itertools

import numpy as np
import scipy.linalg
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.research.baselines import affinity
from vdsh_tf.research.baselines import anchors
from vdsh_tf.research.baselines import bre
from vdsh_tf.research.baselines import cca_itq
from vdsh_tf.research.baselines import itq
from vdsh_tf.research.baselines import ksh
from vdsh_tf.research.baselines import mlh
from vdsh_tf.research.baselines import sdh


def _corners(bits):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=bits)))


def _one_hot(num, classes, rng):
    return np.eye(classes, dtype=np.float32)[rng.integers(classes, size=num)]


class AnchorsTest(case.TestCase):
    def test_rbf(self):
        rng = np.random.default_rng(0)
        x, a = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
        want = [
            [np.exp(-np.sum((p - q) ** 2) / (2 * 0.7**2)) for q in a] for p in x
        ]
        self.assert_close(anchors.rbf(x, a, 0.7), want)

    def test_affinity_without_the_matrix(self):
        rng = np.random.default_rng(1)
        y = _one_hot(30, 4, rng)
        v = rng.normal(size=(30, 2))
        self.assert_close(affinity.times(y)(v), affinity.dense(y) @ v)
        y[:10, 0] = 1
        self.assert_close(affinity.times(y)(v), affinity.dense(y) @ v)
        self.assertEqual(affinity.dense(y)[0, 1], 1)


class SDHTest(case.TestCase):
    def test_a_bit_takes_its_better_sign(self):
        rng = np.random.default_rng(0)
        n, bits, classes, nu = 25, 6, 4, 0.3
        y = _one_hot(n, classes, rng)
        w = rng.normal(size=(bits, classes))
        fitted = rng.normal(size=(n, bits))
        codes = rng.choice([-1.0, 1.0], size=(n, bits))
        got = sdh.discrete_descent(codes, y @ w.T + nu * fitted, w, sweeps=1)

        def loss(b, i):
            data = np.sum((y[i] - b @ w) ** 2)
            return data + nu * np.sum((b - fitted[i]) ** 2)

        for i in range(n):
            row = codes[i].copy()
            for k in range(bits):
                row[k] = min(
                    (-1.0, 1.0),
                    key=lambda s, k=k, i=i, row=row: loss(
                        np.where(np.arange(bits) == k, s, row), i
                    ),
                )
            self.assert_equal(got[i], row)

    def test_stops_where_no_bit_can_improve(self):
        rng = np.random.default_rng(1)
        codes = rng.choice([-1.0, 1.0], size=(9, 5))
        w, target = rng.normal(size=(5, 3)), rng.normal(size=(9, 5))
        done = sdh.discrete_descent(codes, target, w, sweeps=50)
        again = sdh.discrete_descent(done, target, w, sweeps=1)
        self.assert_equal(done, again)

    def test_descent_from_zeros_gives_equal_rows_equal_codes(self):
        rng = np.random.default_rng(3)
        y = _one_hot(30, 4, rng)
        w = rng.normal(size=(6, 4))
        codes = sdh.discrete_descent(np.zeros((30, 6)), y @ w.T, w, sweeps=10)
        self.assert_equal(np.abs(codes), np.ones((30, 6)))
        for label in y.astype(bool).T:
            self.assertLen(np.unique(codes[label], axis=0), 1)

    def test_classifier_solves_the_ridge_problem(self):
        rng = np.random.default_rng(2)
        b = rng.choice([-1.0, 1.0], size=(40, 6)).astype("f4")
        y = _one_hot(40, 3, rng)
        w = sdh.ridge_classifier(b, y, 0.5).astype(np.float64)
        self.assert_close(b.T @ (b @ w - y) + 0.5 * w, 0, atol=1e-4)


class ITQTest(case.TestCase):
    @parameterized.parameters((6, 6), (3, 6))
    def test_rotation_is_the_best(self, rank, bits):
        rng = np.random.default_rng(0)
        v = rng.normal(size=(50, rank))
        b = rng.choice([-1.0, 1.0], size=(50, bits))
        best = itq.procrustes(v.T @ b).astype(np.float64)
        self.assert_close(best @ best.T, np.eye(rank), atol=1e-6)
        least = np.sum((b - v @ best) ** 2)
        for _ in range(200):
            other = np.linalg.qr(rng.normal(size=(bits, rank)))[0].T
            self.assertLess(least, np.sum((b - v @ other) ** 2))
        skew = rng.normal(size=(bits, bits))
        near = best @ scipy.linalg.expm(1e-2 * (skew - skew.T))
        self.assertLess(least, np.sum((b - v @ near) ** 2))

    def test_objective_is_the_distance_to_the_corners(self):
        rng = np.random.default_rng(1)
        v = rng.normal(size=(60, 4)).astype("f4")
        rotation, objective = itq.fit_rotation(v, 4, 200, rng)
        b = np.where(v @ rotation > 0, 1, -1)
        want = np.sum((b - v @ rotation) ** 2)
        self.assert_close(objective[-1], want, atol=1e-3)

    def test_principal_directions(self):
        rng = np.random.default_rng(2)
        x = rng.normal(size=(80, 6)) * np.arange(1, 7)
        got = itq.principal_directions(x, 3)
        want = np.linalg.svd(x, full_matrices=False)[2][:3].T
        self.assert_close(np.abs(np.sum(got * want, axis=0)), 1, atol=1e-5)

    def test_canonical_directions_against_the_eigenproblem(self):
        rng = np.random.default_rng(3)
        x = rng.normal(size=(100, 7))
        x -= x.mean(axis=0)
        y = (x @ rng.normal(size=(7, 3)) + rng.normal(size=(100, 3)) > 0) * 1.0
        got, rho = cca_itq.canonical_directions(x, y, 1e-3)
        centred = y - y.mean(axis=0)
        cxx = x.T @ x / 100 + 1e-3 * np.eye(7)
        cyy = centred.T @ centred / 100 + 1e-3 * np.eye(3)
        cxy = x.T @ centred / 100
        values, vectors = scipy.linalg.eigh(
            cxy @ np.linalg.solve(cyy, cxy.T), cxx
        )
        self.assert_close(rho**2, values[::-1][:3], atol=1e-10)
        overlap = np.sum(got * (cxx @ vectors[:, ::-1][:, :3]), axis=0)
        self.assert_close(np.abs(overlap), 1, atol=1e-8)


class KSHTest(case.TestCase):
    def test_gradient(self):
        rng = np.random.default_rng(0)
        phi = rng.normal(size=(20, 5))
        half = rng.normal(size=(20, 20))
        matrix = half + half.T
        a = rng.normal(size=5)

        def loss(a):
            return ksh.smooth_loss(a, phi, lambda v: matrix @ v)

        step = 1e-6
        for k, unit in enumerate(np.eye(5)):
            slope = (loss(a + step * unit)[0] - loss(a - step * unit)[0]) / (
                2 * step
            )
            self.assert_close(loss(a)[1][k], slope, atol=1e-7)

    def test_relaxed_direction_is_the_best(self):
        rng = np.random.default_rng(1)
        half = rng.normal(size=(4, 4))
        left, phi = half + half.T, rng.normal(size=(9, 4))
        metric = phi.T @ phi

        def gain(a):
            return 9 * (a @ left @ a) / (a @ metric @ a)

        best = ksh.relaxed_direction(left, metric, 9).astype(np.float64)
        self.assert_close(best @ metric @ best, 9, atol=1e-4)
        for a in rng.normal(size=(300, 4)):
            self.assertLess(gain(a), gain(best) + 1e-6)

    def test_objective_is_the_error_of_the_inner_products(self):
        rng = np.random.default_rng(2)
        y = rng.integers(3, size=60)
        x = (np.eye(3)[y] + 0.3 * rng.normal(size=(60, 3))).astype("f4")
        fitted = ksh.KSH(6).fit(x, y)
        h = np.where(fitted.project(x) > 0, 1.0, -1.0)
        s = affinity.dense(np.eye(3, dtype="f4")[y])
        want = np.sum((6 * s - h @ h.T) ** 2) / (6 * 60) ** 2
        self.assert_close(fitted.objective[-1], want, atol=1e-5)


class BRETest(case.TestCase):
    @parameterized.parameters(*range(8))
    def test_no_shift_is_better(self, seed):
        rng = np.random.default_rng(seed)
        score, column = rng.normal(size=(2, 12))
        column[:2] = 0
        first, second = rng.integers(12, size=(2, 40))
        price = rng.normal(size=40)

        def loss(t):
            on = score + t * column > 0
            return np.sum(price * (on[first] != on[second]))

        turns = np.sort(-score[2:] / column[2:])
        middles = (turns[1:] + turns[:-1]) / 2
        tries = [*middles, turns[0] - 1, turns[-1] + 1]
        shift = bre.best_shift(score, column, first, second, price)
        self.assert_close(loss(shift), min(map(loss, tries)), atol=1e-9)

    def test_pairs_and_their_targets(self):
        rng = np.random.default_rng(0)
        y = _one_hot(40, 3, rng)
        first, second, target = bre.draw_targets(y, 6, rng)
        self.assertFalse(np.any(first == second))
        alike = y.argmax(axis=1)[first] == y.argmax(axis=1)[second]
        self.assert_equal(target, 1.0 - alike)
        self.assert_equal(np.bincount(first[alike]), np.full(40, 3))


class MLHTest(case.TestCase):
    @parameterized.product(alike=(0, 1), radius=(0.2, 0.6))
    def test_adjusted_codes_are_the_best_of_all(self, alike, radius):
        rng = np.random.default_rng(0)
        bits = 4
        corners = _corners(bits)
        costs = np.stack([mlh.pair_costs(bits, radius, 0.7)[alike]] * 20)
        a, b = rng.normal(size=(2, 20, bits))
        g, h, best = mlh.adjusted_codes(a, b, costs)

        def value(i, g, h):
            distance = int(np.sum(g != h))
            return costs[i, distance] + 0.5 * (g @ a[i] + h @ b[i])

        for i in range(20):
            want = max(value(i, p, q) for p in corners for q in corners)
            self.assert_close(value(i, g[i], h[i]), want, atol=1e-6)
            self.assert_close(best[i], want, atol=1e-6)

    def test_bound_is_above_the_cost_and_its_gradient_is_right(self):
        rng = np.random.default_rng(1)
        x, other = rng.normal(size=(2, 6, 3))
        w = rng.normal(size=(3, 4))
        costs = mlh.pair_costs(4, 0.5, 1.0).astype(float)[[0, 1] * 3]
        gradient, bound = mlh.bound_gradient(x, other, costs, w)
        distance = np.sum((x @ w > 0) != (other @ w > 0), axis=1)
        self.assertGreaterEqual(bound, costs[np.arange(6), distance].mean())
        for k in np.ndindex(w.shape):
            unit = np.zeros_like(w)
            unit[k] = 1e-6
            ahead = mlh.bound_gradient(x, other, costs, w + unit)[1]
            behind = mlh.bound_gradient(x, other, costs, w - unit)[1]
            self.assert_close(gradient[k], (ahead - behind) / 2e-6, atol=1e-6)

    def test_half_of_the_pairs_are_alike(self):
        rng = np.random.default_rng(2)
        y = _one_hot(50, 5, rng)
        i, j, alike = mlh.draw_pairs(y, 40, rng)
        self.assert_equal(alike, np.sum(y[i] * y[j], axis=1) > 0)
        self.assertEqual(alike.sum(), 20)


if __name__ == "__main__":
    absltest.main()
