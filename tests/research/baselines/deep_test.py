"""Deep baselines: losses against loops, learning on digits."""

import itertools

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized
from sklearn import datasets as sklearn_datasets

from tests.support import case
from vdsh_tf import codes
from vdsh_tf.evaluation import metrics
from vdsh_tf.research.baselines import drsch
from vdsh_tf.research.baselines import dsch
from vdsh_tf.research.baselines import dsrh
from vdsh_tf.research.baselines import small_cnn

BITS = 32
STEPS = 100
MARGIN_OVER_LSH = 0.35
METHODS = {"DSRH": dsrh.DSRH, "DSCH": dsch.DSCH, "DRSCH": drsch.DRSCH}


def _digits():
    """Images [n, 8, 8, 1] and labels: 1,200 to train on, 300 queries."""
    bunch = sklearn_datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    x = (bunch.images * (255 / 16)).astype(np.uint8)[order, ..., None]
    y = bunch.target[order]
    return (x[:1200], y[:1200]), (x[1200:1500], y[1200:1500])


def _batch(multi, num=9, bits=6):
    rng = np.random.default_rng(3)
    h = rng.uniform(-1, 1, size=(num, bits))
    if multi:
        y = (rng.random((num, 4)) < 0.4).astype(float)
    else:
        y = np.eye(3)[rng.integers(3, size=num)]
    return h, y


def _hamming(a, b, weights):
    return sum(weights[k] * (1 - a[k] * b[k]) / 2 for k in range(len(a)))


def _shared(y, a, b):
    return sum(y[a, c] * y[b, c] for c in range(y.shape[1]))


def _triples(num):
    rows = range(num)
    return (
        (q, i, j)
        for q, i, j in itertools.product(rows, rows, rows)
        if i != q and j != q
    )


def _slow_ranking(h, y, margin):
    num, ones = len(h), np.ones(h.shape[1])
    total, count = 0.0, 0
    for q, i, j in _triples(num):
        r_i, r_j = _shared(y, q, i), _shared(y, q, j)
        if r_i <= r_j:
            continue
        ideal = sorted(_shared(y, q, k) for k in range(num) if k != q)[::-1]
        z = sum((2**r - 1) / np.log2(p + 2) for p, r in enumerate(ideal))
        near, far = _hamming(h[q], h[i], ones), _hamming(h[q], h[j], ones)
        total += (2**r_i - 2**r_j) / z * max(0.0, near - far + margin)
        count += 1
    return total / count


def _slow_comparison(h, y, weights, margin):
    terms = [
        max(
            0.0,
            _hamming(h[q], h[i], weights)
            - _hamming(h[q], h[j], weights)
            + margin,
        )
        for q, i, j in _triples(len(h))
        if _shared(y, q, i) and not _shared(y, q, j)
    ]
    return np.mean(terms)


def _slow_appearance(h, x, weights):
    num = len(x)
    pairs = [(i, j) for i in range(num) for j in range(num) if i != j]
    apart = {p: np.sum((x[p[0]] - x[p[1]]) ** 2 / 255.0**2) for p in pairs}
    mean = np.mean(list(apart.values()))
    alike = {p: np.exp(-4 * apart[p] / mean) for p in pairs}
    total = sum(alike[i, j] * _hamming(h[i], h[j], weights) for i, j in pairs)
    return total / sum(alike.values())


class LossTest(case.TestCase):
    @parameterized.parameters(False, True)
    def test_ranking_is_the_loop(self, multi):
        h, y = _batch(multi)
        got = dsrh.ranking_loss(tf.constant(h), tf.constant(y), 1.5)
        self.assert_close(got, _slow_ranking(h, y, 1.5), atol=1e-6)

    @parameterized.parameters(False, True)
    def test_comparison_is_the_loop(self, multi):
        h, y = _batch(multi)
        weights = np.linspace(0.1, 2.0, h.shape[1])
        distance = dsch.distances(tf.constant(h), tf.constant(weights))
        got = dsch.comparison_loss(distance, tf.constant(y), 1.5)
        self.assert_close(got, _slow_comparison(h, y, weights, 1.5))

    def test_appearance_is_the_loop(self):
        h, _ = _batch(False)
        x = np.random.default_rng(1).integers(256, size=(9, 4, 4, 1))
        weights = np.linspace(0.1, 2.0, h.shape[1])
        distance = dsch.distances(tf.constant(h), tf.constant(weights))
        got = drsch.appearance_loss(distance, tf.constant(x))
        self.assert_close(got, _slow_appearance(h, x, weights))

    def test_distance_of_bits_is_hamming(self):
        h, _ = _batch(False)
        bits = h > 0
        want = (bits[:, None] != bits[None]).sum(axis=2)
        got = dsch.distances(tf.constant(np.where(bits, 1.0, -1.0)))
        self.assert_close(got, want)

    def test_imbalance_of_halves_is_zero(self):
        h = tf.constant([[1.0, 1.0], [-1.0, 1.0]])
        self.assert_close(dsrh.imbalance(h), 1.0)

    def test_batch_without_triplets_costs_nothing(self):
        h, y = tf.ones([3, 4]), tf.constant([[1.0, 0.0]] * 3)
        self.assert_equal(dsrh.ranking_loss(h, y, 1.0), 0.0)
        self.assert_equal(dsch.comparison_loss(dsch.distances(h), y, 1.0), 0.0)


class LearningTest(case.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train, cls.query = _digits()
        cls.fitted = {
            name: kind(BITS, seed=1, steps=STEPS).fit(*cls.train)
            for name, kind in METHODS.items()
        }

    def _map(self, query, database):
        counts = metrics.count_by_distance(
            query, self.query[1], database, self.train[1]
        )
        return metrics.mean_average_precision(counts)

    def _lsh_map(self):
        train, query = (
            part[0].reshape(-1, 64) for part in (self.train, self.query)
        )
        mean = train.mean(axis=0)
        planes = np.random.default_rng(0).normal(size=(64, BITS))
        return self._map(
            *(codes.pack((rows - mean) @ planes > 0) for rows in (query, train))
        )

    @parameterized.parameters(*METHODS)
    def test_objective_falls(self, name):
        objective = self.fitted[name].objective
        self.assertLen(objective, STEPS)
        self.assertLess(np.mean(objective[-20:]), np.mean(objective[:5]) / 3)

    @parameterized.parameters(*METHODS)
    def test_beats_random_hyperplanes(self, name):
        fitted = self.fitted[name]
        got = self._map(
            fitted.encode(self.query[0]), fitted.encode(self.train[0])
        )
        self.assertGreater(got, self._lsh_map() + MARGIN_OVER_LSH)

    @parameterized.parameters(*METHODS)
    def test_same_seed_same_codes(self, name):
        x, y = self.train[0][:300], self.train[1][:300]
        first, again, other = (
            METHODS[name](16, seed=seed, steps=15).fit(x, y)
            for seed in (2, 2, 3)
        )
        self.assert_equal(first.encode(x), first.encode(x))
        self.assert_equal(first.encode(x), again.encode(x))
        self.assertFalse(np.array_equal(first.encode(x), other.encode(x)))

    def test_codes_are_packed_bits(self):
        fitted = self.fitted["DSCH"]
        got = fitted.encode(self.query[0])
        self.assertEqual(got.dtype, np.uint8)
        self.assertEqual(got.shape, (300, BITS // 8))

    def test_heaviest_bits_come_first(self):
        fitted = self.fitted["DRSCH"]
        weights = fitted.bit_weights
        self.assertTrue(np.all(np.diff(weights) <= 0))
        self.assertAlmostEqual(weights.sum(), BITS, places=3)
        self.assertGreater(weights[0], weights[-1] + 0.05)
        short = [
            np.ascontiguousarray(fitted.encode(part[0])[:, :2])
            for part in (self.query, self.train)
        ]
        self.assertGreater(self._map(*short), self._lsh_map() + 0.2)


class EdgesTest(case.TestCase):
    @parameterized.parameters(*METHODS)
    def test_several_labels_of_an_image(self, name):
        (x, y), _ = _digits()
        x, labels = x[:200], np.eye(10)[y[:200]]
        labels[:, 0] = np.arange(200) % 2
        fitted = METHODS[name](8, steps=10, batch_size=32).fit(x, labels)
        self.assertEqual(fitted.encode(x).shape, (200, 1))
        self.assertTrue(np.all(np.isfinite(fitted.objective)))

    @parameterized.parameters((8, 8, 1), (28, 28, 1), (32, 32, 3))
    def test_network_takes_each_size(self, *shape):
        x = np.random.default_rng(0).integers(256, size=(5, *shape))
        network = small_cnn.build(x.astype(np.uint8), 24, 0, True)
        self.assertEqual(network(x.astype("f4")).shape, (5, 24))

    def test_batches_pass_over_all_rows(self):
        order = small_cnn.batches(10, 5, 4, 0)
        self.assert_equal(np.sort(order[:2].ravel()), np.arange(10))
        self.assert_equal(np.sort(order[2:].ravel()), np.arange(10))

    @parameterized.parameters(
        (np.zeros((3, 64), np.uint8),), (np.zeros((3, 8, 8, 1)),)
    )
    def test_only_images(self, x):
        with self.assertRaisesRegex(ValueError, "uint8"):
            dsch.DSCH(8).fit(x, np.array([0, 1, 0]))

    def test_fit_comes_first(self):
        with self.assertRaisesRegex(ValueError, "`fit` must come"):
            dsch.DSCH(8).encode(np.zeros((3, 8, 8, 1), np.uint8))

    def test_settings_are_checked(self):
        with self.assertRaisesRegex(ValueError, "`steps` must be"):
            dsrh.DSRH(8, steps=0)
        with self.assertRaisesRegex(ValueError, "`batch_size` must be"):
            dsrh.DSRH(8, batch_size=2)


if __name__ == "__main__":
    absltest.main()
