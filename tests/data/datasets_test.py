"""Splits by the paper's protocol, batches, and bad data."""

import os
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.data import datasets

SHARED = os.path.join(os.path.dirname(__file__), "../../../shared/data/tfds")


class DigitsTest(case.TestCase):
    def test_split_has_the_stated_sizes_and_no_overlap(self):
        split = datasets.load(
            "digits", queries_per_class=15, validation_per_class=10
        )
        self.assertLen(split.query, 150)
        self.assertLen(split.validation, 100)
        self.assertLen(split.train, 1797 - 250)
        self.assertLen(split.database, 1797 - 150)
        self.assert_equal(np.bincount(split.query.y), [15] * 10)
        self.assert_equal(np.bincount(split.validation.y), [10] * 10)
        everything = np.concatenate([split.query.x, split.database.x])
        whole = datasets.load("digits", queries_per_class=0).train.x
        self.assert_equal(
            np.sort(everything.view("V256").ravel()),
            np.sort(whole.view("V256").ravel()),
        )

    def test_no_seed_draws_one_that_is_kept(self):
        drawn = datasets.load("digits", seed=None)
        again = datasets.load("digits", seed=drawn.seed)
        self.assert_equal(drawn.query.x, again.query.x)
        self.assertNotEqual(drawn.seed, datasets.load("digits", seed=None).seed)

    def test_seed_decides_the_split(self):
        first, again, other = (
            datasets.load("digits", seed=seed).query.x for seed in (1, 1, 2)
        )
        self.assert_equal(first, again)
        self.assertFalse(np.array_equal(first, other))

    def test_validation_split_leaves_the_queries_out(self):
        split = datasets.load("digits", validation_per_class=10)
        chosen_by = split.validation_split()
        self.assert_equal(chosen_by.query.x, split.validation.x)
        self.assert_equal(chosen_by.database.x, split.train.x)
        with self.assertRaisesRegex(ValueError, "validation_per_class > 0"):
            chosen_by.validation_split()

    def test_rows_are_pictures(self):
        self.assertEqual(datasets.load("digits").image_shape, (8, 8, 1))

    def _epochs(self, split, count, **kwargs):
        dataset, steps = split.train_batches(batch_size=64, **kwargs)
        batches = list(dataset.take(count * steps).as_numpy_iterator())
        return [
            batches[e * steps : (e + 1) * steps] for e in range(count)
        ], steps

    @parameterized.parameters(0.0, 0.3)
    def test_resumed_epoch_is_what_it_would_have_been(self, noise):
        split = datasets.load("digits")
        epochs, steps = self._epochs(split, 3, seed=5, noise=noise)
        self.assertEqual(steps, 1597 // 64)
        (later,), _ = self._epochs(split, 1, seed=5, first_epoch=2, noise=noise)
        for (x, y), (want_x, want_y) in zip(later, epochs[2], strict=True):
            self.assert_equal(x, want_x)
            self.assert_equal(y, want_y)
        first_labels = np.concatenate([y for _, y in epochs[0]])
        second_labels = np.concatenate([y for _, y in epochs[1]])
        self.assertFalse(np.array_equal(first_labels, second_labels))

    def test_rows_keep_their_labels(self):
        split = datasets.load("digits")
        (batches,), _ = self._epochs(split, 1)
        unit = split.train.x / np.linalg.norm(
            split.train.x, axis=1, keepdims=True
        )
        for x, y in batches[:3]:
            nearest = np.argmax(x @ unit.T, axis=1)
            self.assert_equal(split.train.y[nearest], y)

    def test_noise_has_the_stated_length(self):
        split = datasets.load("digits")
        (plain,), _ = self._epochs(split, 1)
        (noisy,), _ = self._epochs(split, 1, noise=0.1)
        length = np.linalg.norm(plain[0][0], axis=1)
        change = np.linalg.norm(plain[0][0] - noisy[0][0], axis=1) / length
        self.assertBetween(change.mean(), 0.08, 0.12)

    def test_too_few_items_in_a_class(self):
        with self.assertRaisesRegex(ValueError, "Class 0 must.*178 items"):
            datasets.load("digits", queries_per_class=178)


class NpzTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        rng = np.random.default_rng(0)
        self.x = rng.random((60, 5)).astype("f4")

    def _save(self, **arrays):
        path = os.path.join(self.folder.name, "data.npz")
        np.savez(path, **arrays)
        return path

    def _load(self, path, **kwargs):
        return datasets.load("npz", path=path, queries_per_class=3, **kwargs)

    def test_single_label(self):
        path = self._save(features=self.x, labels=np.arange(60) % 4)
        split = self._load(path)
        self.assertEqual(split.num_classes, 4)
        self.assertLen(split.query, 12)

    def test_multi_label_draws_per_label(self):
        rng = np.random.default_rng(1)
        y = rng.random((60, 4)) < 0.4
        split = self._load(self._save(x=self.x, y=y))
        self.assertEqual(split.num_classes, 4)
        self.assertLen(split.query, 12)
        self.assertTrue((split.query.y.sum(axis=0) >= 3).all())

    def test_names_of_labels_are_not_labels(self):
        y = np.eye(4, dtype=np.uint8)[np.arange(60) % 4]
        names = np.array(["a", "b", "c", "d"])
        split = self._load(self._save(x=self.x, y=y, labels=names))
        self.assertEqual(split.num_classes, 4)
        self.assertLen(split.database, 48)

    def test_train_and_test_are_put_together(self):
        y = np.arange(60) % 4
        path = self._save(
            x_train=self.x[:40],
            y_train=y[:40],
            x_test=self.x[40:],
            y_test=y[40:],
        )
        self.assertLen(self._load(path).database, 48)

    def test_missing_arrays(self):
        path = self._save(data=self.x)
        with self.assertRaisesRegex(
            ValueError, "`features` and `labels`.*data"
        ):
            self._load(path)

    def test_missing_file(self):
        with self.assertRaisesRegex(FileNotFoundError, "nowhere.npz"):
            self._load("nowhere.npz")

    def test_no_path(self):
        with self.assertRaisesRegex(ValueError, "needs `path`"):
            datasets.load("npz")

    def test_damaged_file(self):
        path = self._save(features=self.x, labels=np.arange(60) % 4)
        with open(path, "r+b") as f:
            f.truncate(200)
        with self.assertRaisesRegex(ValueError, "plain arrays"):
            self._load(path)

    def test_pickled_file_is_refused(self):
        path = self._save(
            features=np.array([{"a": 1}], dtype=object), labels=[0]
        )
        with self.assertRaisesRegex(ValueError, "plain arrays"):
            self._load(path)

    def test_rows_without_features_are_left_out(self):
        x = np.ones((40, 3), np.float32)
        x[7] = 0
        path = self._save(features=x, labels=np.arange(40) % 2)
        with self.assertWarnsRegex(UserWarning, "1 rows .* all zero"):
            split = datasets.load("npz", path=path, queries_per_class=2)
        self.assertEqual(len(split.query) + len(split.train), 39)

    def test_features_are_not_pictures(self):
        path = self._save(features=self.x, labels=np.arange(60) % 4)
        self.assertIsNone(self._load(path).image_shape)

    @parameterized.parameters(((4, 2, 3),), ((2, 6, 2),), ((4, 6),))
    def test_images_are_flattened(self, shape):
        rng = np.random.default_rng(0)
        images = rng.integers(1, 256, (60, *shape), dtype=np.uint8)
        path = self._save(x=images, y=np.arange(60) % 4)
        split = datasets.load("npz", path=path, queries_per_class=0)
        self.assertEqual(split.image_shape, (*shape, 1)[:3])
        self.assertEqual(split.train.x.dtype, np.uint8)
        self.assert_equal(split.train.x, images.reshape(60, -1))

    @parameterized.parameters(np.int64, np.uint8)
    def test_image_shape_in_the_file(self, dtype):
        shape = np.array([5, 1, 1], dtype)
        path = self._save(x=self.x, y=np.arange(60) % 4, image_shape=shape)
        self.assertEqual(self._load(path).image_shape, (5, 1, 1))

    @parameterized.parameters(
        ([5, 1, 2],),
        ([5, 1],),
        ([5.0, 1.0, 1.0],),
        ([-5, -1, 1],),
        ([[5, 1, 1]],),
        (5,),
        (["5", "1", "1"],),
    )
    def test_image_shape_that_does_not_fit(self, shape):
        path = self._save(x=self.x, y=np.arange(60) % 4, image_shape=shape)
        with self.assertRaisesRegex(ValueError, "`image_shape` in .*product"):
            self._load(path)

    def test_image_shape_that_contradicts_the_images(self):
        images = np.ones((60, 4, 2, 3), np.uint8)
        path = self._save(x=images, y=np.arange(60) % 4, image_shape=[2, 4, 3])
        with self.assertRaisesRegex(ValueError, r"\[2, 4, 3\].*\(4, 2, 3\)"):
            self._load(path)

    def test_images_of_other_numbers_are_not_rows(self):
        images = np.ones((60, 4, 2, 3), np.float32)
        path = self._save(x=images, y=np.arange(60) % 4)
        with self.assertRaisesRegex(ValueError, "flatten images first"):
            self._load(path)

    def test_black_images_are_left_out(self):
        images = np.ones((60, 4, 2, 3), np.uint8)
        images[7] = 0
        path = self._save(x=images, y=np.arange(60) % 4)
        with self.assertWarnsRegex(UserWarning, "1 rows .* all zero"):
            split = self._load(path)
        self.assertEqual(len(split.query) + len(split.train), 59)
        self.assertEqual(split.image_shape, (4, 2, 3))

    def test_shape_is_for_folders(self):
        path = self._save(x=self.x, y=np.arange(60) % 4)
        with self.assertRaisesRegex(ValueError, "`image_shape` is for `imag"):
            self._load(path, image_shape=(5, 1, 1))

    def test_nan_names_the_row(self):
        self.x[9, 0] = np.nan
        path = self._save(features=self.x, labels=np.arange(60) % 4)
        with self.assertRaisesRegex(ValueError, "row 9"):
            self._load(path)


class TfdsTest(case.TestCase):
    def test_unknown_name(self):
        with self.assertRaisesRegex(ValueError, "digits, mnist.*'imagenet'"):
            datasets.load("imagenet")

    def test_missing_folder(self):
        with self.assertRaisesRegex(FileNotFoundError, "no/such/folder"):
            datasets.load("mnist", data_dir="no/such/folder")

    def test_not_prepared_and_no_network_says_both_cures(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "mnist"))
            try:
                datasets.load("fashion_mnist", data_dir=folder)
            except RuntimeError as error:
                self.assertRegex(str(error), "connect to the network")
                self.assertRegex(str(error), "`data_dir` or in TFDS_DATA_DIR")
            else:
                self.skipTest("a network is there: the data was downloaded")

    def test_prepared_copy(self):
        if not os.path.isdir(SHARED):
            self.skipTest("no prepared MNIST beside the repository")
        split = datasets.load("mnist", data_dir=SHARED)
        self.assertLen(split.query, 1000)
        self.assertLen(split.database, 69000)
        self.assertEqual(split.image_shape, (28, 28, 1))
        self.assertEqual(split.train.x.shape[1], 784)
        self.assertEqual(split.train.x.dtype, np.uint8)


if __name__ == "__main__":
    absltest.main()
