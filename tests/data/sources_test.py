"""GIST features that are computed once and kept."""

import contextlib
import io
import os
import stat
import tempfile
import unittest.mock
import warnings

import numpy as np
from absl.testing import absltest

from tests.support import case
from vdsh_tf.data import datasets
from vdsh_tf.data import gist
from vdsh_tf.data import sources


class GistTest(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.folder = os.path.join(folder, "made", "when", "needed")
        self.enter_context(
            unittest.mock.patch.dict(os.environ, VDSH_CACHE_DIR=self.folder)
        )
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
        self.labels = np.arange(20) % 2
        self.reads = self.enter_context(
            unittest.mock.patch.object(
                sources,
                "_read_tfds",
                return_value=(self.images, self.labels),
            )
        )
        self.stderr = io.StringIO()

    def _load(self):
        with contextlib.redirect_stderr(self.stderr):
            return datasets.load("cifar10_gist", queries_per_class=0)

    def _load_with_warning(self, pattern):
        with self.assertWarnsRegex(UserWarning, pattern):
            return self._load()

    @property
    def _path(self):
        return sources.gist_cache_path("cifar10_gist")

    def test_rows_are_gist_with_their_labels(self):
        split = self._load()
        self.assert_equal(split.train.x, gist.gist(self.images))
        self.assert_equal(split.train.y, self.labels)
        self.assertIsNone(split.image_shape)
        self.reads.assert_called_once_with("cifar10", None)

    def test_computed_once_with_progress_only_then(self):
        first = self._load().train.x
        self.assertRegex(self.stderr.getvalue(), "cifar10_gist.*20/20")
        self.stderr.seek(0)
        self.stderr.truncate()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = self._load().train.x
        self.assert_equal(again, first)
        self.assertEqual(self.stderr.getvalue(), "")
        self.assertEqual(self.reads.call_count, 1)
        self.assertEqual(os.listdir(self.folder), ["cifar10_gist_v1.npz"])

    def test_another_version_is_computed_anew(self):
        self._load()
        with unittest.mock.patch.object(gist, "GIST_VERSION", 2):
            self._load()
        self.assertEqual(self.reads.call_count, 2)
        self.assertLen(os.listdir(self.folder), 2)

    def test_damaged_file_is_computed_anew_with_a_warning(self):
        want = self._load().train.x
        with open(self._path, "r+b") as f:
            f.seek(3000)
            f.write(b"damage")
        got = self._load_with_warning("damaged and is computed anew")
        self.assert_equal(got.train.x, want)
        self._load()
        self.assertEqual(self.reads.call_count, 2)

    def test_half_a_file_is_computed_anew(self):
        self._load()
        with open(self._path, "r+b") as f:
            f.truncate(1000)
        self._load_with_warning("damaged")

    def test_file_of_other_features_is_computed_anew(self):
        self._load()
        np.savez(self._path, features=np.ones((20, 3)), labels=self.labels)
        self._load_with_warning("damaged.*512")

    def test_folder_that_cannot_be_written(self):
        os.makedirs(os.path.dirname(self.folder))
        with open(self.folder, "w"):
            pass
        split = self._load_with_warning("could not be kept.*VDSH_CACHE_DIR")
        self.assertLen(split.train, 20)

    def test_read_only_folder(self):
        os.makedirs(self.folder)
        os.chmod(self.folder, stat.S_IRUSR | stat.S_IXUSR)
        self.addCleanup(os.chmod, self.folder, stat.S_IRWXU)
        if os.access(self.folder, os.W_OK):
            self.skipTest("this user may write everywhere")
        self._load_with_warning("could not be kept")

    def test_stopped_while_writing_leaves_no_file(self):
        with (
            unittest.mock.patch.object(
                np, "savez", side_effect=KeyboardInterrupt
            ),
            self.assertRaises(KeyboardInterrupt),
        ):
            self._load()
        self.assertEqual(os.listdir(self.folder), [])

    def test_default_folder(self):
        with unittest.mock.patch.dict(os.environ, HOME="/home/someone"):
            del os.environ["VDSH_CACHE_DIR"]
            self.assertEqual(
                self._path,
                "/home/someone/.cache/vdsh_tf/cifar10_gist_v1.npz",
            )


if __name__ == "__main__":
    absltest.main()
