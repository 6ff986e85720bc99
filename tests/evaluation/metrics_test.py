"""Retrieval metrics against loops that follow the definitions."""

import itertools

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import codes
from vdsh_tf.evaluation import metrics


def _problem(num_queries=5, num_items=60, bits=6, multi=False, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.random((num_queries, bits)) < 0.5
    d = rng.random((num_items, bits)) < 0.5
    if multi:
        ql = (rng.random((num_queries, 4)) < 0.3).astype(np.uint8)
        dl = (rng.random((num_items, 4)) < 0.3).astype(np.uint8)
    else:
        ql = rng.integers(3, size=num_queries)
        dl = rng.integers(3, size=num_items)
    return q, ql, d, dl


def _relevant(ql, dl):
    if np.ndim(ql):
        return np.array(
            [any(a and b for a, b in zip(ql, row, strict=True)) for row in dl]
        )
    return dl == ql


def _average_precision(order, relevant):
    found, total = 0, 0.0
    for place, item in enumerate(order, start=1):
        if relevant[item]:
            found += 1
            total += found / place
    return total / max(1, relevant.sum())


class EvaluateTest(case.TestCase):
    @parameterized.product(bits=(1, 6, 8, 20, 70), multi=(False, True))
    def test_radius_metrics_match_loops(self, bits, multi):
        q, ql, d, dl = _problem(bits=bits, multi=multi)
        got = metrics.evaluate(codes.pack(q), ql, codes.pack(d), dl, bits)
        for radius in (0, 1, 2):
            precision, recall, empty = [], [], []
            for i in range(len(q)):
                ball = (q[i] != d).sum(axis=1) <= radius
                rel = _relevant(ql[i], dl)
                hits = (ball & rel).sum()
                precision.append(hits / ball.sum() if ball.any() else 0.0)
                recall.append(hits / rel.sum() if rel.any() else 0.0)
                empty.append(not ball.any())
            self.assertAlmostEqual(
                got[f"precision_r{radius}"], np.mean(precision)
            )
            self.assertAlmostEqual(got[f"recall_r{radius}"], np.mean(recall))
            self.assertAlmostEqual(got[f"empty_r{radius}"], np.mean(empty))

    def test_map_is_the_mean_over_all_orders_of_ties(self):
        q, ql, d, dl = _problem(num_queries=3, num_items=7, bits=2)
        got = metrics.evaluate(codes.pack(q), ql, codes.pack(d), dl, 2)["map"]
        want = []
        for i in range(len(q)):
            distance = (q[i] != d).sum(axis=1)
            groups = [np.flatnonzero(distance == value) for value in range(3)]
            orders = itertools.product(
                *[itertools.permutations(group) for group in groups]
            )
            rel = _relevant(ql[i], dl)
            want.append(
                np.mean(
                    [
                        _average_precision(itertools.chain(*order), rel)
                        for order in orders
                    ]
                )
            )
        self.assertAlmostEqual(got, np.mean(want), places=12)

    def test_map_does_not_depend_on_the_order_of_the_database(self):
        q, ql, d, dl = _problem(num_items=400, bits=3)
        args = codes.pack(q), ql
        by_class = np.argsort(dl)
        first = metrics.evaluate(*args, codes.pack(d), dl, 3)["map"]
        second = metrics.evaluate(
            *args, codes.pack(d[by_class]), dl[by_class], 3
        )["map"]
        self.assertAlmostEqual(first, second, places=12)

    def test_perfect_and_collapsed_codes(self):
        labels = np.arange(8) % 4
        perfect = codes.pack(np.eye(4, dtype=bool)[labels])
        got = metrics.evaluate(perfect, labels, perfect, labels, 4)
        self.assertEqual(got["map"], 1.0)
        self.assertEqual(got["precision_r0"], 1.0)
        self.assertEqual(got["distinct_codes"], 4)
        same = np.zeros_like(perfect)
        got = metrics.evaluate(same, labels, same, labels, 4)
        self.assertEqual(got["distinct_codes"], 1)
        self.assertEqual(got["constant_bits"], 4)
        self.assertEqual(got["bit_balance"], 0.0)
        self.assertLess(got["map"], 0.6)

    def test_query_without_relevant_items_counts_as_zero(self):
        code = np.zeros((2, 1), np.uint8)
        got = metrics.evaluate(
            code, np.array([0, 9]), code, np.array([0, 0]), 8
        )
        self.assertEqual(got["map"], 0.5)
        self.assertEqual(got["recall_r2"], 0.5)

    def test_chunks_do_not_change_the_counts(self):
        q, ql, d, dl = _problem(num_items=500, bits=12)
        args = codes.pack(q), ql, codes.pack(d), dl
        whole = metrics.count_by_distance(*args)
        old, metrics._CHUNK_PAIRS = metrics._CHUNK_PAIRS, 17 * len(q)
        try:
            parts = metrics.count_by_distance(*args)
        finally:
            metrics._CHUNK_PAIRS = old
        self.assert_equal(whole.items, parts.items)
        self.assert_equal(whole.hits, parts.hits)
        self.assert_equal(whole.items.sum(axis=1), [500] * len(q))


class BadInputTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.codes = np.zeros((3, 2), np.uint8)
        self.labels = np.array([0, 1, 2])

    def test_wrong_width(self):
        with self.assertRaisesRegex(ValueError, "3 bytes wide.*\\(3, 2\\)"):
            metrics.evaluate(
                self.codes, self.labels, self.codes, self.labels, 20
            )

    def test_wrong_dtype(self):
        with self.assertRaisesRegex(ValueError, "uint8.*float64"):
            metrics.evaluate(
                self.codes.astype(float),
                self.labels,
                self.codes,
                self.labels,
                16,
            )

    def test_labels_missing(self):
        with self.assertRaisesRegex(ValueError, "3 codes and 2 labels"):
            metrics.evaluate(
                self.codes, self.labels[:2], self.codes, self.labels, 16
            )

    def test_empty_database(self):
        with self.assertRaisesRegex(ValueError, "at least one database item"):
            metrics.evaluate(
                self.codes, self.labels, self.codes[:0], self.labels[:0], 16
            )

    def test_mixed_labels(self):
        with self.assertRaisesRegex(ValueError, "of one kind"):
            metrics.relevance(self.labels, np.eye(3))

    def test_negative_radius(self):
        counts = metrics.count_by_distance(
            self.codes, self.labels, self.codes, self.labels
        )
        with self.assertRaisesRegex(ValueError, "radius=-1"):
            metrics.within_radius(counts, -1)


class CodesTest(case.TestCase):
    def test_pack_is_most_significant_bit_first(self):
        bits = np.array([[1, 0, 0, 0, 0, 0, 0, 0, 1]], bool)
        self.assert_equal(codes.pack(bits), [[128, 128]])
        self.assert_equal(codes.unpack(codes.pack(bits), 9), bits)

    def test_words_keep_the_bits(self):
        packed = np.arange(18, dtype=np.uint8).reshape(2, 9)
        words = codes.as_words(packed)
        self.assertEqual((words.shape, words.dtype), ((2, 2), np.uint64))
        self.assert_equal(words.view(np.uint8)[:, :9], packed)
        self.assertFalse(words.view(np.uint8)[:, 9:].any())

    def test_a_bit_is_above_zero(self):
        self.assert_equal(
            codes.binarize(np.array([[-1.0, 0.0, 1e-9]])), [[0, 0, 1]]
        )


if __name__ == "__main__":
    absltest.main()
