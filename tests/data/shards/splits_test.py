"""`datasets.load` of shards: who is a query, and today's sets as they were."""

import os
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import shard_files
from vdsh_tf.data import datasets
from vdsh_tf.data.shards import hashing
from vdsh_tf.training import provenance

SHARED = "../shared/data/tfds"


class LoadTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.x, self.y = shard_files.make_rows(2000)

    def _load(self, x=None, y=None, folder=None, key=None, kind="npy", **more):
        x = self.x if x is None else x
        y = self.y if y is None else y
        folder = folder or tempfile.mkdtemp(dir=self.folder)
        shard_files.write(folder, x, y, kind, key=key)
        more = {"query_share": 0.1, "validation_share": 0.05, **more}
        return datasets.load("shards", path=folder, **more)

    def _rows(self, part):
        """Contents and labels of a part, as a set."""
        x = part.x.take(np.arange(len(part)))
        return {(*row, label) for row, label in zip(x, part.y, strict=True)}

    def test_parts_are_apart_and_complete(self):
        split = self._load()
        parts = [split.query, split.validation, split.train]
        found = [self._rows(part) for part in parts]
        self.assertLen(set.union(*found), 2000)
        self.assertEqual(sum(map(len, found)), 2000)
        self.assertBetween(len(split.query), 150, 250)
        self.assertBetween(len(split.validation), 60, 140)
        self.assertEqual(split.num_classes, 4)
        self.assertEqual(self._rows(split.database), found[1] | found[2])

    @parameterized.parameters("npy", "parquet")
    def test_data_that_is_added_moves_no_row(self, kind):
        old = self._load(self.x[:900], self.y[:900], kind=kind)
        order = np.random.default_rng(0).permutation(2000)
        new = self._load(self.x[order], self.y[order], kind=kind)
        for name in ("query", "validation", "train"):
            a, b = (self._rows(getattr(s, name)) for s in (old, new))
            self.assertContainsSubset(a, b)
            self.assertGreater(len(b), len(a))

    def test_equal_rows_stay_together(self):
        x, y = np.concatenate([self.x] * 2), np.concatenate([self.y] * 2)
        split = self._load(x, y)
        query, train = self._rows(split.query), self._rows(split.train)
        self.assertLen(split.query, 2 * len(query))
        self.assertEmpty(query & train)

    @parameterized.parameters("npy", "parquet", "tfrecord")
    def test_keys_count_and_not_contents(self, kind):
        key = np.arange(2000) * 7
        split = self._load(kind=kind, key=key)
        other = self._load(self.x + 1, kind=kind, key=key)
        self.assert_equal(split.query.y, other.query.y)
        self.assert_equal(
            split.query.x.take([0, 3]) + 1, other.query.x.take([0, 3])
        )
        chosen = hashing.uniform(hashing.of_keys(key), 0) < 0.1
        self.assert_equal(split.query.y, self.y[chosen])

    def test_keys_of_text(self):
        key = np.array([f"item {i}" for i in range(2000)])
        splits = [self._load(kind=k, key=key) for k in ("parquet", "tfrecord")]
        self.assert_equal(splits[0].query.y, splits[1].query.y)

    def test_seed(self):
        first, same, other = (
            self._rows(self._load(seed=s).query) for s in (0, 0, 1)
        )
        self.assertEqual(first, same)
        self.assertNotEqual(first, other)

    def test_protocols(self):
        split = self._load(train_per_class=30)
        self.assertLen(split.train, 120)
        self.assertEqual(split.protocol, "train_per_class=30")
        self.assertEmpty(self._rows(split.train) & self._rows(split.unseen))
        split = self._load(unseen_classes="2")
        self.assertEqual(set(split.query.y), {2})
        self.assertEqual(set(split.train.y), {0, 1, 2})
        self.assertEqual(split.num_classes, 3)
        rows = split.train.x.take(np.arange(len(split.train)))
        for row, label in zip(rows[:20], split.train.y, strict=False):
            (was,) = self.y[(self.x == row).all(axis=1)]
            self.assertEqual((0, 1, None, 2)[was], label)

    def test_digest_follows_the_data(self):
        first = provenance.digest(self._load())
        self.assertEqual(first, provenance.digest(self._load(kind="parquet")))
        y = self.y.copy()
        y[0] = (y[0] + 1) % 4
        for changed in (
            self._load(y=y),
            self._load(self.x * 2),
            self._load(self.x[:1999], self.y[:1999]),
            self._load(seed=1),
        ):
            self.assertNotEqual(first, provenance.digest(changed))

    def test_batches(self):
        split = self._load()
        dataset, steps = split.train_batches(64, noise=0.1, center=True)
        self.assertEqual(steps, len(split.train) // 64)
        x, y = next(dataset.as_numpy_iterator())
        self.assertEqual((x.shape, y.shape), ((64, 12), (64,)))

    @parameterized.parameters(
        ({"queries_per_class": 3}, "held out by shares"),
        ({"validation_per_class": 3}, "held out by shares"),
        ({"query_share": 0.99}, "leave rows"),
        ({"query_share": -0.5}, "must be >= 0"),
        ({"query_share": 1e-9}, "must hold at least one"),
    )
    def test_bad_shares(self, settings, pattern):
        with self.assertRaisesRegex(ValueError, pattern):
            self._load(**settings)

    def test_shares_are_for_shards(self):
        with self.assertRaisesRegex(ValueError, "`query_share` and .* are for"):
            datasets.load("digits", query_share=0.1)


class TodaysSetsTest(case.TestCase):
    """SHA-256 of splits as they were before there were shards."""

    @parameterized.parameters(
        ({}, "100b97eaf4830ea891f513075b9d3645"),
        (
            {"validation_per_class": 10, "train_per_class": 20, "seed": 3},
            "2a89ba95149593ed0a90a4c35b71c035",
        ),
        (
            {"unseen_classes": "7,8,9", "validation_per_class": 5},
            "480a4dffddc17e8f71893a9223081738",
        ),
    )
    def test_digits(self, settings, want):
        split = datasets.load("digits", **settings)
        self.assertEqual(provenance.digest(split)[:32], want)

    def test_npz(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.npz")
            x = np.random.default_rng(0).random((90, 6)).astype("f4")
            np.savez(path, features=x, labels=np.arange(90) % 3)
            split = datasets.load(
                "npz", path=path, queries_per_class=5, validation_per_class=2
            )
        self.assertEqual(
            provenance.digest(split)[:32], "a102edba37ab1d548fc714ef75080a20"
        )


class PreparedTest(case.TestCase):
    def test_prepared_copy(self):
        if not os.path.isdir(SHARED):
            self.skipTest("no prepared MNIST beside the repository")
        cache = self.enter_context(tempfile.TemporaryDirectory())
        before = os.environ.get("VDSH_CACHE_DIR")
        os.environ["VDSH_CACHE_DIR"] = cache
        self.addCleanup(_restore, "VDSH_CACHE_DIR", before)
        split = datasets.load("tfds:mnist[test]", data_dir=SHARED)
        self.assertEqual(len(split.query) + len(split.train), 10_000)
        self.assertEqual(split.image_shape, (28, 28, 1))
        self.assertEqual(split.train.x.dtype, np.uint8)
        # The mean of all pixels of MNIST's test images is .1325.
        mean = np.mean([b.mean() for b in split.database.x.batches(1000)])
        self.assertBetween(mean / 255, 0.13, 0.135)
        self.assert_equal(np.unique(split.query.y), np.arange(10))

    def test_bad_names(self):
        for name, pattern in (
            ("tfds:no_such_set", "must have been prepared"),
            ("tfds:mnist[", "must be named tfds:NAME"),
        ):
            with (
                tempfile.TemporaryDirectory() as folder,
                self.assertRaisesRegex((RuntimeError, ValueError), pattern),
            ):
                datasets.load(name, data_dir=folder)


def _restore(name, value):
    os.environ.pop(name)
    if value is not None:
        os.environ[name] = value


if __name__ == "__main__":
    absltest.main()
