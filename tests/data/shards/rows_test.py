"""Rows on disk against the arrays that they were written from."""

import os
import shutil
import tempfile
from unittest import mock

import fsspec
import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import shard_files
from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards import keeping
from vdsh_tf.data.shards import opening
from vdsh_tf.data.shards import surveying

KINDS = ("npy", "parquet", "tfrecord")


def open_all(path):
    return opening.open_rows("shards", path=path)


class StoredRowsTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.enter_context(tempfile.TemporaryDirectory())
        # Many pieces of a few rows.
        self.enter_context(mock.patch.object(formats, "_BLOCK", 64))
        self.x, self.y = shard_files.make_rows()

    def _write(self, kind, **kwargs):
        x, y = kwargs.pop("x", self.x), kwargs.pop("y", self.y)
        return shard_files.write(f"{self.root}/{kind}", x, y, kind, **kwargs)

    @parameterized.product(
        kind=KINDS, dtype=(np.float32, np.uint8), labels=("one", "many")
    )
    def test_every_format_gives_the_rows_back(self, kind, dtype, labels):
        x, y = np.abs(self.x).astype(dtype), self.y
        x[:, 0] += 1  # No row is zero.
        if labels == "many":
            y = (np.random.default_rng(1).random((600, 5)) < 0.4).astype("u1")
        rows = open_all(self._write(kind, x=x, y=y))
        self.assertEqual(rows.shape, x.shape)
        self.assertEqual(rows.dtype, dtype)
        self.assert_equal(np.concatenate(list(rows.batches(37))), x)
        self.assert_equal(rows.catalog.labels, y)
        self.assertEqual([len(b) for b in rows.batches(250)], [250, 250, 100])

    def test_float64(self):
        rows = open_all(self._write("npy", x=self.x.astype(np.float64)))
        self.assertEqual(rows.dtype, np.float64)
        self.assert_equal(rows.take([5]), self.x[5:6])

    def test_pictures_keep_their_shape(self):
        x = np.random.default_rng(0).integers(1, 256, (60, 4, 3, 2), np.uint8)
        folder = self._write("npy", x=x, y=self.y[:60])
        rows = open_all(folder)
        self.assertEqual(rows.catalog.layout.image_shape, (4, 3, 2))
        self.assert_equal(rows.take(np.arange(60)), x.reshape(60, -1))

    @parameterized.parameters(*KINDS)
    def test_choosing_reads_nothing_and_takes_what_was_chosen(self, kind):
        rows = open_all(self._write(kind))
        rng = np.random.default_rng(0)
        mask = rng.random(600) < 0.3
        some = rows[mask][5:-3]
        want = self.x[mask][5:-3]
        self.assertEqual(some.shape, want.shape)
        self.assert_equal(np.concatenate(list(some.batches(50))), want)
        order = rng.permutation(len(want))[:40]
        self.assert_equal(some.take(order), want[order])
        self.assert_equal(some.take([]), want[:0])
        self.assertEmpty(list(rows[:0].batches(5)))
        with self.assertRaisesRegex(ValueError, "increasing row numbers"):
            rows[[3, 2]]
        with self.assertRaisesRegex(ValueError, "Row numbers must be"):
            rows.take([600])
        with self.assertRaisesRegex(ValueError, "600 rows .* piece by piece"):
            np.asarray(rows)

    def test_joined(self):
        rows = open_all(self._write("npy"))
        mask = np.random.default_rng(0).random(600) < 0.5
        both, order = rows[mask].joined(rows[~mask])
        self.assert_equal(both.take(np.arange(600)), self.x)
        labels = np.concatenate([self.y[mask], self.y[~mask]])
        self.assert_equal(labels[order], self.y)

    def test_sample_of_few_rows_is_all_of_them(self):
        rows = open_all(self._write("npy"))
        self.assert_equal(rows.sample(), self.x)
        self.assert_equal(rows[100:300].sample(), self.x[100:300])

    def test_sample_of_many_rows(self):
        most = mock.patch.object(surveying.normalization, "MOST_ROWS", 100)
        with (
            most,
            mock.patch.object(surveying.normalization, "_FEWEST_ROWS", 10),
        ):
            # The shards' own numbers tell how evenly rows are drawn.
            x = np.arange(1, 601, dtype=np.float32)[:, None] * np.ones(3, "f4")
            rows = open_all(self._write("npy", x=x))
            got = rows.sample()[:, 0]
            self.assertLen(set(got), 100)
            self.assertGreater(np.diff(got).min(), 0)
            self.assertBetween(got.mean(), 240, 360)
            # Most of it left out: drawn anew, and read.
            few = rows[:150]
            self.assertLen(few.sample(), 100)
            self.assertLessEqual(few.sample().max(), 150)

    def test_rows_of_zeros_are_left_out(self):
        self.x[[3, 400]] = 0
        with self.assertWarnsRegex(UserWarning, "2 rows .* all zero"):
            rows = open_all(self._write("npy"))
        self.assert_equal(
            rows.take(np.arange(598)), np.delete(self.x, [3, 400], axis=0)
        )

    def test_digest_is_of_the_contents(self):
        rows = open_all(self._write("npy"))
        same = open_all(self._write("parquet", parts=2))
        self.assertEqual(rows.digest(), same.digest())
        for other in (self.x[::-1], self.x + np.float32(1e-3), self.x[:599]):
            shutil.rmtree(f"{self.root}/npy")
            y = self.y[: len(other)]
            changed = open_all(self._write("npy", x=other, y=y))
            self.assertNotEqual(rows.digest(), changed.digest())

    @parameterized.parameters(*KINDS)
    def test_urls(self, kind):
        folder = self._write(kind)
        self.enter_context(
            mock.patch.dict(os.environ, VDSH_CACHE_DIR=f"{self.root}/cache")
        )
        memory = fsspec.filesystem("memory")
        memory.put(folder, f"/{kind}", recursive=True)
        self.addCleanup(memory.rm, f"/{kind}", recursive=True)
        for url in (
            f"memory://{kind}",
            f"memory://{kind}/*.{kind}",
            f"file://{folder}",
        ):
            rows = open_all(url)
            self.assert_equal(rows.take(np.arange(600)), self.x)
        self.assertLen(os.listdir(f"{self.root}/cache"), 3)


class KeepingTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.x, self.y = shard_files.make_rows()
        shard_files.write(self.folder, self.x[:300], self.y[:300], parts=2)
        self.read: list[str] = []
        run = surveying._Survey.run

        def counted(survey, *args):
            self.read.append(os.path.basename(survey._shard.name))
            return run(survey, *args)

        self.enter_context(mock.patch.object(surveying._Survey, "run", counted))

    def _open(self):
        self.read.clear()
        return open_all(self.folder)

    def test_one_pass_that_is_kept(self):
        first = self._open()
        self.assertEqual(self.read, ["part-00000.npy", "part-00001.npy"])
        again = self._open()
        self.assertEqual(self.read, [])
        self.assertEqual(first.digest(), again.digest())
        self.assert_equal(again.catalog.labels, self.y[:300])
        self.assert_equal(again.sample(), self.x[:300])

    def test_only_new_shards_are_read(self):
        self._open()
        shard_files.write(self.folder, self.x[300:], self.y[300:], first=2)
        rows = self._open()
        self.assertEqual(self.read, [f"part-{i:05d}.npy" for i in range(2, 6)])
        self.assert_equal(rows.sample(), self.x)
        self.assert_equal(rows.catalog.labels, self.y)

    def test_changed_shards_are_read_again(self):
        old = self._open()
        shard_files.write(self.folder, self.x[:300] * 2, self.y[:300], parts=2)
        new = self._open()
        self.assertLen(self.read, 2)
        self.assertNotEqual(old.digest(), new.digest())
        self.assert_equal(new.sample(), self.x[:300] * 2)
        with self.assertRaisesRegex(ValueError, "00000.npy must not change"):
            old.take([0])

    def test_damaged_catalog(self):
        self._open()
        (name,) = [n for n in os.listdir(self.folder) if "catalog" in n]
        path = os.path.join(self.folder, name)
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) // 2)
        with self.assertWarnsRegex(UserWarning, "is damaged"):
            self._open()
        self.assertLen(self.read, 2)
        self._open()
        self.assertEmpty(self.read)

    def test_folder_that_cannot_be_written(self):
        cache = self.enter_context(tempfile.TemporaryDirectory())
        self.enter_context(mock.patch.dict(os.environ, VDSH_CACHE_DIR=cache))
        self.enter_context(
            mock.patch.object(keeping.os, "access", return_value=False)
        )
        self._open()
        self.assertLen(os.listdir(cache), 1)
        self._open()
        self.assertEmpty(self.read)


class BadShardTest(case.TestCase):
    """Every message names the file; nothing is kept of a bad one."""

    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.x, self.y = shard_files.make_rows()

    def _refused(self, kind, pattern, error=ValueError):
        with self.assertRaisesRegex(error, pattern):
            open_all(self.folder)
        self.assertNotIn("catalog", " ".join(os.listdir(self.folder)), kind)

    def _write(self, kind, x=None, y=None, first=0, parts=1, key=None):
        x = self.x if x is None else x
        y = self.y if y is None else y
        shard_files.write(self.folder, x, y, kind, parts, key, first)

    @parameterized.product(kind=KINDS, keep=(0.0, 0.7))
    def test_damaged(self, kind, keep):
        self._write(kind, parts=2)
        path = f"{self.folder}/part-00001.{kind}"
        with open(path, "r+b") as f:
            # Never between two records.
            f.truncate(max(0, int(os.path.getsize(path) * keep) - 3))
        self._refused(kind, "part-00001.* must ")

    @parameterized.parameters("npy", "parquet")
    def test_empty(self, kind):
        self._write(kind)
        self._write(kind, self.x[:0], self.y[:0], first=1)
        self._refused(kind, "part-00001.* at least one row")

    @parameterized.parameters(*KINDS)
    def test_other_width(self, kind):
        self._write(kind)
        self._write(kind, self.x[:, :5], first=1)
        self._refused(kind, "one width. Received: 5 in .*part-00001")

    def test_other_width_in_the_middle(self):
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table(
            {"features": [[1.0, 2.0], [1.0]], "label": [0, 1]}
        )
        pyarrow.parquet.write_table(table, f"{self.folder}/a.parquet")
        self._refused("a", "a.parquet must be of one width, 2.*1 in row 1")

    @parameterized.parameters("npy", "parquet")
    def test_other_type(self, kind):
        self._write(kind)
        self._write(kind, self.x.astype(np.float64), first=1)
        self._refused(kind, "one type. Received: float64 in .*part-00001")

    def test_labels_of_another_kind(self):
        self._write("npy")
        self._write("npy", y=np.eye(4, dtype="u1")[self.y], first=1)
        self._refused("npy", "columns of labels. Received: 4 in .*00001")

    def test_missing_labels(self):
        self._write("npy", parts=2)
        os.remove(f"{self.folder}/part-00001.labels.npy")
        self._refused(
            "npy", "00001.npy must have its labels", FileNotFoundError
        )
        np.save(f"{self.folder}/part-00001.labels.npy", self.y[:7])
        self._refused("npy", "00001.labels.npy must hold one .*: 7 entries")

    @parameterized.parameters(
        ({"features": [[1.0]]}, "a.parquet must have a column of labels"),
        ({"label": [1]}, "a.parquet must have one column of features"),
        (
            {"features": [[1.0], [2.0]], "label": [1, None]},
            "a.parquet must have its label.*row 1",
        ),
        (
            {"features": [[1.0], None], "label": [1, 2]},
            "a.parquet must have its features",
        ),
        (
            {"features": [[1.0]], "label": ["cat"]},
            "Labels of .*a.parquet must be integers",
        ),
        (
            {"features": [[1.0], [2.0]], "label": [0, -1]},
            "Labels must be 0 or more.* -1 in row 1 of .*a.parquet",
        ),
    )
    def test_columns(self, columns, pattern):
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(
            pyarrow.table(columns), f"{self.folder}/a.parquet"
        )
        self._refused("parquet", pattern)

    def test_tfrecord_without_labels(self):
        import tensorflow as tf

        feature = tf.train.Feature(float_list={"value": [1.0]})
        example = tf.train.Example(features={"feature": {"features": feature}})
        with tf.io.TFRecordWriter(f"{self.folder}/a.tfrecord") as writer:
            writer.write(example.SerializeToString())
        self._refused("tfrecord", "a.tfrecord must be .* no label")

    def test_nan(self):
        self.x[450, 3] = np.nan
        self._write("npy", parts=2)
        self._refused("npy", "NaN or inf in row 150 of .*part-00001.npy")

    def test_keys_of_some(self):
        self._write("npy", key=np.arange(600))
        self._write("npy", first=1)
        self._refused("npy", "keys, or none.*part-00001")

    def test_names(self):
        with self.assertRaisesRegex(FileNotFoundError, "nowhere.*Quote"):
            open_all(f"{self.folder}/nowhere/*.npy")
        with self.assertRaisesRegex(ValueError, "`shards` needs `path`"):
            opening.open_rows("shards")
        self._write("npy")
        with open(f"{self.folder}/readme.txt", "w") as f:
            f.write("hello")
        with self.assertRaisesRegex(ValueError, "all of one kind.*readme.txt"):
            open_all(self.folder)
        with self.assertRaisesRegex(OSError, "URL that fsspec"):
            open_all("nosuch://a/b")


if __name__ == "__main__":
    absltest.main()
