"""Expectations over ties: all orders where they are few, else shuffles."""

import itertools
import os
import tracemalloc

import hypothesis
import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized
from hypothesis import strategies as st

from vdsh_tf import codes as codes_lib
from vdsh_tf.data import datasets
from vdsh_tf.evaluation import curves
from vdsh_tf.evaluation import metrics

DATA = os.path.join(os.path.dirname(__file__), "../../../shared/data/tfds")


def average_precision(relevant):
    """Of rankings [..., n], straight from the definition."""
    relevant = np.asarray(relevant, float)
    rank = np.arange(1, relevant.shape[-1] + 1)
    precision = np.cumsum(relevant, axis=-1) / rank
    found = np.maximum(1, relevant.sum(axis=-1))
    return (precision * relevant).sum(axis=-1) / found


def all_orders(groups):
    """Every ranking of groups of tied items, each given by its relevances."""
    for parts in itertools.product(*map(itertools.permutations, groups)):
        yield list(itertools.chain(*parts))


def counts_of(groups):
    items = np.array([[len(group) for group in groups]])
    hits = np.array([[sum(group) for group in groups]])
    return metrics.Counts(items, hits)


def counts_between(codes, y, queries):
    """Of the first items as queries, against the others."""
    return metrics.count_by_distance(
        codes[:queries], y[:queries], codes[queries:], y[queries:]
    )


def same_distance(groups):
    """Codes and labels whose distances to a zero query form the groups."""
    bits = max(8, len(groups))
    rows, labels = [], []
    for distance, group in enumerate(groups):
        row = np.zeros(bits, bool)
        row[:distance] = True
        rows += [row] * len(group)
        labels += list(group)
    return codes_lib.pack(np.array(rows)), np.array(labels)


GROUPS = st.lists(
    st.lists(st.booleans(), max_size=4), min_size=1, max_size=4
).filter(lambda groups: 1 <= sum(map(len, groups)) <= 9)


class AllOrdersTest(absltest.TestCase):
    @hypothesis.given(GROUPS)
    @hypothesis.settings(max_examples=80, deadline=None, database=None)
    def test_map_and_precision_at_k(self, groups):
        orders = list(all_orders(groups))
        want = np.mean([average_precision(order) for order in orders])
        counts = counts_of(groups)
        self.assertAlmostEqual(metrics.mean_average_precision(counts), want, 12)
        n = sum(map(len, groups))
        hits = np.mean([np.cumsum(order) for order in orders], axis=0)
        got = curves.expected_hits(counts, np.arange(1, n + 1))
        np.testing.assert_allclose(got[0], hits, atol=1e-12)

    def test_from_codes(self):
        groups = [[True, False], [], [False, True, True], [True, False]]
        database, labels = same_distance(groups)
        query = np.zeros((1, database.shape[1]), np.uint8)
        got = metrics.evaluate(
            query, np.array([1]), database, labels.astype(int), 8
        )
        orders = all_orders(groups)
        want = np.mean([average_precision(order) for order in orders])
        self.assertAlmostEqual(got["map"], want, 12)


class ShufflesTest(absltest.TestCase):
    def check(self, distance, relevant, counts, shuffles):
        """Random orders among ties scatter around the expectation."""
        rng = np.random.default_rng(0)
        scores = []
        for _ in range(shuffles):
            order = rng.permutation(distance.shape[1])
            # Stable: ties stay in the order of the shuffle.
            rank = np.argsort(distance[:, order], axis=1, kind="stable")
            ranked = np.take_along_axis(relevant[:, order], rank, axis=1)
            scores.append(average_precision(ranked).mean())
        error = np.std(scores, ddof=1) / np.sqrt(shuffles)
        got = metrics.mean_average_precision(counts)
        self.assertGreater(error, 0)
        self.assertLess(abs(np.mean(scores) - got), 3 * error)

    def test_random_codes(self):
        rng = np.random.default_rng(1)
        codes = codes_lib.pack(rng.random((320, 5)) < 0.5)
        y = rng.integers(3, size=320)
        counts = counts_between(codes, y, 20)
        xor = codes[:20, None] ^ codes[None, 20:]
        distance = np.bitwise_count(xor).sum(axis=2, dtype=np.uint8)
        relevant = metrics.relevance(y[:20], y[20:])
        self.check(distance, relevant, counts, 1000)

    @pytest.mark.skipif(
        not os.path.isdir(os.path.join(DATA, "mnist")),
        reason="needs MNIST prepared in ../shared/data/tfds",
    )
    def test_mnist_codes(self):
        """Codes of real images, 12 bits, so that thousands are equal."""
        split = datasets.load("mnist", data_dir=DATA, queries_per_class=2)
        rng = np.random.default_rng(0)
        planes = rng.normal(size=(784, 12)).astype(np.float32)
        query, database = (
            codes_lib.pack(part.x.astype(np.float32) @ planes > 0)
            for part in (split.query, split.train.take(slice(3000)))
        )
        labels = split.train.y[:3000]
        counts = metrics.count_by_distance(
            query, split.query.y, database, labels
        )
        distance = np.bitwise_count(query[:, None] ^ database).sum(
            axis=2, dtype=np.uint8
        )
        relevant = metrics.relevance(split.query.y, labels)
        self.check(distance, relevant, counts, 1000)


class CurvesTest(parameterized.TestCase):
    def test_matches_ranking_without_ties(self):
        rng = np.random.default_rng(0)
        # At most one item at a distance: rank is certain.
        hits = (rng.random((4, 30)) < 0.4).astype(np.int64)
        counts = metrics.Counts(np.ones((4, 30), np.int64), hits)
        got = curves.retrieval_curves(counts)["by_rank"]
        k = np.array(got["k"])
        np.testing.assert_array_equal(k, np.arange(1, 31))
        found = np.cumsum(hits, axis=1)
        np.testing.assert_allclose(got["precision"], np.mean(found / k, axis=0))
        np.testing.assert_allclose(
            got["recall"],
            np.mean(found / hits.sum(axis=1, keepdims=True), axis=0),
        )

    def test_memory_is_that_of_a_chunk(self):
        """1,000 x 69,000 pairs are never in memory together."""
        rng = np.random.default_rng(0)
        codes = rng.integers(0, 256, (70_000, 8), dtype=np.uint8)
        y = rng.integers(10, size=70_000)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        counts = counts_between(codes, y, 1000)
        metrics.summarize(counts, codes[1000:], 64)
        got = curves.retrieval_curves(counts)
        _, peak = tracemalloc.get_traced_memory()
        # A byte per pair says whether it is relevant, for a chunk and the next.
        self.assertLess(peak, 2.5 * metrics._CHUNK_PAIRS)
        self.assertLess(2.5 * metrics._CHUNK_PAIRS, 1000 * 69_000)
        self.assertEqual(got["by_rank"]["k"][-1], 69_000)
        np.testing.assert_array_equal(counts.items.sum(axis=1), [69_000] * 1000)

    def test_ends(self):
        rng = np.random.default_rng(0)
        codes = codes_lib.pack(rng.random((5000, 16)) < 0.5)
        y = rng.integers(4, size=5000)
        counts = counts_between(codes, y, 10)
        got = curves.retrieval_curves(counts)
        rank, radius = got["by_rank"], got["by_radius"]
        self.assertEqual(rank["k"][-1], 4990)
        share = np.mean([np.mean(y[10:] == c) for c in y[:10]])
        for curve in (rank, radius):
            self.assertAlmostEqual(curve["precision"][-1], share, 12)
            self.assertAlmostEqual(curve["recall"][-1], 1.0, 12)
            self.assertTrue((np.diff(curve["recall"]) >= -1e-12).all())
        precision, recall, empty = metrics.within_radius(counts, 2)
        self.assertEqual(
            [radius[name][2] for name in ("precision", "recall", "empty")],
            [precision, recall, empty],
        )


if __name__ == "__main__":
    absltest.main()
