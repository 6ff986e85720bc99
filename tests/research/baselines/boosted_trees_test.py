"""Boosted trees, against trying everything."""

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.research.baselines import boosted_trees


class BoostedTreesTest(case.TestCase):
    def test_split_is_the_best_of_all(self):
        rng = np.random.default_rng(0)
        binned = rng.integers(5, size=(3, 40)).astype(np.uint8)
        target = rng.random(40) < 0.5
        node = rng.integers(2, size=40)
        weight = rng.random(40)
        keys = 2 * binned.astype(int) + target
        feature, cut = boosted_trees.best_splits(keys, node, weight, 2, 5)

        def impurity(n, f, c):
            total = 0.0
            for side in (binned[f] <= c, binned[f] > c):
                p = weight[(node == n) & side & target].sum()
                q = weight[(node == n) & side & ~target].sum()
                total += p * q / max(p + q, 1e-12)
            return total

        for n in range(2):
            want = min(impurity(n, f, c) for f in range(3) for c in range(5))
            self.assert_close(impurity(n, feature[n], cut[n]), want)

    def test_classify_walks_the_tree(self):
        rng = np.random.default_rng(1)
        binned = rng.integers(9, size=(4, 60)).astype(np.uint8)
        feature = rng.integers(4, size=7)
        cut = rng.integers(9, size=7).astype(np.uint8)
        leaf = rng.random(8) < 0.5
        got = boosted_trees.classify(binned, feature, cut, leaf)
        for i in range(60):
            n = 0
            while n < 7:
                n = 2 * n + 1 + int(binned[feature[n], i] > cut[n])
            self.assertEqual(got[i], leaf[n - 7])

    def test_boosting_learns_what_one_tree_cannot(self):
        rng = np.random.default_rng(2)
        x = rng.normal(size=(600, 6)).astype("f4")
        target = np.sum(x, axis=1) > 0
        edges = boosted_trees.fit_edges(x, 16)
        binned = boosted_trees.quantise(x, edges)
        errors = {}
        for trees in (1, 40):
            forest, votes = boosted_trees.boost(
                binned, target, trees, 2, 16, 6, 0.95, rng
            )
            self.assert_close(
                boosted_trees.vote(forest, binned), votes, atol=1e-4
            )
            errors[trees] = np.mean((votes > 0) != target)
        self.assertGreater(errors[1], 0.2)
        self.assertLess(errors[40], 0.1)

    @parameterized.parameters(True, False)
    def test_rows_told_apart_at_once_stay_so(self, constant):
        rng = np.random.default_rng(3)
        binned = rng.integers(8, size=(2, 50)).astype(np.uint8)
        target = np.full(50, True) if constant else binned[0] > 3
        forest, votes = boosted_trees.boost(
            binned, target, 100, 2, 8, 2, 0.9, rng
        )
        self.assertTrue(np.all(np.isfinite(forest.weight)))
        self.assert_equal(votes > 0, target)

    def test_quantise_counts_the_borders_below(self):
        x = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [9.0, 7.0]], "f4")
        edges = np.array([[0.5, 1.0, 8.0], [5.0, 5.5, 6.0]], "f4")
        self.assert_equal(
            boosted_trees.quantise(x, edges), [[0, 1, 2, 3], [0, 0, 0, 3]]
        )


if __name__ == "__main__":
    absltest.main()
