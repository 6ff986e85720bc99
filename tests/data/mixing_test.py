"""Rows made of two: mixtures and chimeras, alone and in a model."""

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf import Recipe
from vdsh_tf import network
from vdsh_tf.data import datasets
from vdsh_tf.data import mixing


def _rows(count=30, dim=40, seed=0):
    x = np.random.default_rng(seed).normal(size=(count, dim)).astype("f4")
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class MixupTest(case.TestCase):
    @parameterized.parameters(True, False)
    def test_each_sample_takes_a_share_of_its_neighbour(self, weighted):
        x = _rows(dim=5)
        y = np.eye(30, dtype="f4")
        weight = np.arange(30, dtype="f4") if weighted else None
        got_x, got_y, got_weight = mixing.mixed(x, y, weight, 0.4, [1, 2])
        own = np.diag(got_y)
        taken = got_y.numpy()[np.arange(30), np.arange(30) - 1]
        self.assert_close(own + taken, np.ones(30), atol=1e-6)
        self.assertTrue((taken >= 0).all() and (taken <= 0.4).all())
        self.assertGreater(taken.std(), 0.05)
        want = own[:, None] * x + taken[:, None] * np.roll(x, 1, axis=0)
        want /= np.linalg.norm(want, axis=1, keepdims=True)
        self.assert_close(got_x, want, atol=1e-6)
        if weighted:
            want = own * weight + taken * np.roll(weight, 1)
            self.assert_close(got_weight, want, atol=1e-5)
        else:
            self.assertIsNone(got_weight)

    @parameterized.parameters(-0.1, 0.6, float("nan"))
    def test_bad_share(self, share):
        with self.assertRaisesRegex(ValueError, "`mixup` must be .*0.5"):
            Recipe(mixup=share)


class ChimeraTest(case.TestCase):
    def test_entries_are_of_two_rows_and_labels_of_both(self):
        x, rng = _rows(), np.random.default_rng(1)
        labels = (rng.random((30, 4)) < 0.6).astype("f4")
        got, shared = mixing.crossed(x, labels, [1, 2])
        before = np.roll(x, 1, axis=0)
        # Which entries are a row's own shows in any row, and holds for all.
        from_own, from_before = got[0] / x[0], got[0] / before[0]
        factor = from_own[np.isclose(from_own[:, None], from_own).sum(0) > 5]
        own = np.isclose(from_own, factor[0], rtol=1e-4)
        self.assert_equal(own, ~np.isclose(from_before, factor[0], rtol=1e-4))
        want = np.where(own, x, before)
        want /= np.linalg.norm(want, axis=1, keepdims=True)
        self.assert_close(got, want, atol=1e-6)
        self.assert_equal(shared, labels * np.roll(labels, 1, axis=0))

    def test_half_of_the_entries_are_taken_and_steps_differ(self):
        x = np.stack([np.zeros(400), np.ones(400)]).astype("f4")
        taken = [
            mixing.crossed(x, x[:, :1], [0, step])[0][1].numpy() == 0
            for step in range(50)
        ]
        self.assertAlmostEqual(np.mean(taken), 0.5, delta=0.05)
        # No entry always goes with another.
        same = np.mean([(t[:, None] == t[None]) for t in taken], axis=0)
        self.assertLess(same[~np.eye(400, dtype=bool)].max(), 1.0)
        self.assertGreater(same.min(), 0.0)

    @parameterized.parameters(0.25, 0.1, 1 / 3)
    def test_rows_are_spread_evenly_and_each_has_its_turn(self, share):
        turns = np.array(
            [mixing.chosen(share, 60, [0, step]).numpy() for step in range(99)]
        )
        self.assertLess(np.abs(turns.sum(axis=1) - 60 * share).max(), 1.01)
        self.assertTrue(turns.any(axis=0).all())
        self.assertAlmostEqual(turns.mean(), share, delta=0.01)

    def test_small_batches_have_their_share_over_many_steps(self):
        turns = [mixing.chosen(0.25, 1, [0, step]) for step in range(400)]
        self.assertAlmostEqual(np.mean(turns), 0.25, delta=0.08)

    @parameterized.product(weighted=(True, False), mixup=(0.0, 0.4))
    def test_slices_give_what_the_whole_batch_gives(self, weighted, mixup):
        x, labels = _rows(21), np.eye(21, dtype="f4")[:, :5]
        weight = np.arange(21, dtype="f4") if weighted else None
        recipe = Recipe(mixup=mixup, chimeras=0.3)
        seed = tf.constant([3, 4], tf.int64)
        want = mixing.blended(x, labels, weight, recipe, seed)
        self.assertLess(np.sum(want[3] == 0), 12)
        found = []
        for start, end in ((0, 8), (8, 21)):
            rows = np.arange(start - 1, end) % 21
            part = None if weight is None else weight[rows]
            found.append(
                mixing.blended(
                    x[rows], labels[rows], part, recipe, seed, (start, 21)
                )
            )
        for number, whole in enumerate(want):
            if whole is None:
                self.assertFalse(weighted)
                continue
            parts = np.concatenate([f[number] for f in found])
            self.assert_close(parts, whole, atol=1e-6)

    def test_metrics_count_items_only(self):
        x, labels = _rows(40), np.eye(40, dtype="f4")
        recipe = Recipe(chimeras=0.5)
        found = mixing.blended(x, labels, None, recipe, [0, 1])
        counted = found[3].numpy()
        self.assertEqual(counted.sum(), 20)
        self.assert_close(found[0].numpy()[counted > 0], x[counted > 0])
        self.assert_equal(found[1].numpy()[counted == 0], 0)
        self.assertIsNone(found[2])

    def test_network_is_less_sure_of_what_is_no_item(self):
        split = datasets.load("digits")
        found = {}
        for share in (0.0, 0.25):
            model = VDSH(4, 64, 32, 10)
            model.compile(recipe=Recipe(chimeras=share))
            model.fit(split.train.x, split.train.y, epochs=12, verbose=0)
            x = model.encoder.normalize(split.query.x)
            labels = np.eye(10, dtype="f4")[split.query.y]
            rows, shared = mixing.crossed(x, labels, [9, 9])
            alone = shared.numpy().sum(axis=1) == 0
            items, others = self._answers(model, x), self._answers(model, rows)
            right = items.argmax(axis=1) == split.query.y
            self.assertGreater(right.mean(), 0.94)
            found[share] = others[alone].max(axis=1).mean()
        self.assertLess(found[0.25], 0.85 * found[0.0])

    def _answers(self, model, x):
        theta, classifier = model.weights_as_tensors()
        return tf.matmul(network.embed(x, theta), classifier)[:, :10].numpy()

    @parameterized.parameters(-0.1, 1.0, float("nan"), "many")
    def test_bad_share(self, share):
        with self.assertRaisesRegex(ValueError, "`chimeras` must be .*< 1"):
            Recipe(chimeras=share)


if __name__ == "__main__":
    absltest.main()
