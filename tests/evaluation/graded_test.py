"""NDCG and cosine mAP against sums written out."""

import itertools

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import codes
from vdsh_tf.data.protocols import Part
from vdsh_tf.evaluation import cosine
from vdsh_tf.evaluation import graded
from vdsh_tf.evaluation import metrics


def _dcg(gains, k):
    return sum(g / np.log2(i + 2) for i, g in enumerate(gains[:k]))


class GradedTest(case.TestCase):
    @parameterized.product(several=(False, True), k=(1, 3, 6, 50))
    def test_ndcg_is_the_mean_over_all_orders_of_ties(self, several, k):
        rng = np.random.default_rng(k)
        query, database = (
            codes.pack(rng.integers(0, 2, (n, 2)) > 0) for n in (3, 6)
        )
        shape = (9, 4) if several else (9,)
        labels = rng.integers(0, 2, shape)
        ours, theirs = labels[:3], labels[3:]
        want = []
        for code, label in zip(query, ours, strict=True):
            shared = graded.shared_labels(label, theirs)
            # Signed: differences of unsigned numbers are never negative.
            distance = np.bitwise_count(code ^ database).sum(axis=1).astype(int)
            orders = [
                order
                for order in itertools.permutations(range(6))
                if (np.diff(distance[list(order)]) >= 0).all()
            ]
            ideal = _dcg(sorted(shared, reverse=True), k)
            got = np.mean([_dcg(shared[list(o)], k) for o in orders])
            want.append(got / ideal if ideal else 0)
        found = graded.ndcg(query, ours, database, theirs, k)
        self.assertAlmostEqual(found, np.mean(want), 12)

    @parameterized.parameters(False, True)
    def test_cosine_map_ranks_by_cosine(self, several):
        rng = np.random.default_rng(0)
        query, database = rng.normal(size=(5, 3)), rng.normal(size=(40, 3))
        shape = (45, 3) if several else (45,)
        labels = rng.integers(0, 2, shape)
        want = []
        for row, label in zip(query, labels[:5], strict=True):
            scores = database @ row / np.linalg.norm(database, axis=1)
            order = np.argsort(-scores)
            relevant = graded.shared_labels(label, labels[5:])[order] > 0
            places = np.flatnonzero(relevant)
            precision = [(i + 1) / (p + 1) for i, p in enumerate(places)]
            want.append(np.mean(precision) if precision else 0)
        found = cosine.cosine_map(query, labels[:5], database, labels[5:])
        self.assertAlmostEqual(found, np.mean(want), 6)
        # Codes whose distances order as the cosines do have the same mAP.
        self.assertLessEqual(found, 1)

    def test_labels_of_one_kind(self):
        part = Part(np.eye(3), np.eye(3, dtype=int))
        with self.assertRaisesRegex(ValueError, "of one kind"):
            metrics.relevance(part.y, np.arange(3))


if __name__ == "__main__":
    absltest.main()
