"""npz, CSV and Parquet to shards: the same rows, or nothing."""

import os
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import shard_files
from vdsh_tf.data.shards import converting
from vdsh_tf.data.shards import opening
from vdsh_tf.data.shards import writing


class ConvertTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.enter_context(tempfile.TemporaryDirectory())
        self.out = f"{self.root}/out"
        self.x, self.y = shard_files.make_rows(300, width=5)

    def _check(self, kind, count):
        rows = opening.open_rows("shards", path=self.out)
        self.assert_equal(rows.take(np.arange(300)), self.x)
        self.assert_equal(rows.catalog.labels, self.y)
        self.assertLen(rows.catalog.entries, count)
        self.assertTrue(rows.catalog.entries[0].name.endswith(kind))

    @parameterized.parameters("npy", "parquet", "tfrecord")
    def test_npz(self, kind):
        path = f"{self.root}/a.npz"
        np.savez(path, features=self.x, labels=self.y)
        done: list[int] = []
        count = converting.convert(path, self.out, kind, 128, None, done.append)
        self.assertEqual(count, 300)
        self.assertEqual(done, [128, 256, 300])
        self._check(kind, 3)
        self.assertSameElements(os.listdir(self.root), ["a.npz", "out"])

    def test_csv(self):
        for name, part in (("a", slice(0, 100)), ("b", slice(100, 300))):
            with open(f"{self.root}/{name}.csv", "w") as f:
                f.write("a,b,c,d,e,class,id\n")
                for row, label in zip(self.x[part], self.y[part], strict=True):
                    numbers = ",".join(repr(float(v)) for v in row)
                    f.write(f"{numbers},{label},{int(1e6 * row[0])}\n")
        pattern = f"{self.root}/*.csv"
        with self.assertRaisesRegex(ValueError, "a.csv must have a column of"):
            converting.convert(pattern, self.out)
        converting.convert(pattern, self.out, rows=200, label="class")
        self._check("npy", 2)
        self.assertIn("part-00000.keys.npy", os.listdir(self.out))

    def test_parquet_of_columns(self):
        import pyarrow
        import pyarrow.parquet

        table = {f"c{i}": self.x[:, i] for i in range(5)}
        pyarrow.parquet.write_table(
            pyarrow.table({**table, "label": self.y}), f"{self.root}/a.parquet"
        )
        converting.convert(f"{self.root}/a.parquet", self.out, "parquet")
        self._check("parquet", 1)

    @parameterized.product(
        source=("npy", "parquet", "tfrecord"), kind=("npy", "parquet")
    )
    def test_shards_to_shards(self, source, kind):
        shard_files.write(f"{self.root}/in", self.x, self.y, source)
        converting.convert(f"{self.root}/in", self.out, kind, 1000)
        self._check(kind, 1)

    def test_failure_leaves_nothing(self):
        shard_files.write(f"{self.root}/in", self.x, self.y, parts=3)
        path = f"{self.root}/in/part-00002.npy"
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) - 1)
        with self.assertRaisesRegex(ValueError, "part-00002.npy must be"):
            converting.convert(f"{self.root}/in", self.out, rows=50)
        self.assertEqual(os.listdir(self.root), ["in"])

    def test_what_a_killed_process_left_goes(self):
        os.makedirs(f"{self.root}/.out.partial/part-00000.npy")
        shard_files.write(f"{self.root}/in", self.x, self.y)
        converting.convert(f"{self.root}/in", self.out)
        self._check("npy", 1)
        self.assertSameElements(os.listdir(self.root), ["in", "out"])

    def test_existing_folder(self):
        os.makedirs(self.out)
        with self.assertRaisesRegex(FileExistsError, "must be new"):
            converting.convert(f"{self.root}/in", self.out)

    @parameterized.parameters(
        ("features,label\n1.5,cat\n", "Labels of .*a.csv must be integers"),
        ("a,label\nx,1\n", "Column 'a' of .*a.csv must hold numbers"),
        ("a,label\n,1\n2,3\n", "a.csv must have a value in every row"),
        ("", "a.csv must be a CSV file"),
    )
    def test_bad_csv(self, text, pattern):
        with open(f"{self.root}/a.csv", "w") as f:
            f.write(text)
        with self.assertRaisesRegex(ValueError, pattern):
            converting.convert(f"{self.root}/a.csv", self.out)
        self.assertEqual(os.listdir(self.root), ["a.csv"])

    def test_bad_arguments(self):
        with self.assertRaisesRegex(ValueError, "`kind` must be one of npy"):
            converting.convert("a.npz", self.out, "zip")
        np.savez(f"{self.root}/a.npz", features=self.x)
        with self.assertRaisesRegex(ValueError, "a.npz must be .* no labels"):
            converting.convert(f"{self.root}/a.npz", self.out)
        with self.assertRaisesRegex(ValueError, "Keys of .npy .* integers"):
            writing.write_npy("a", self.x, self.y, np.array(["a"] * 300))


if __name__ == "__main__":
    absltest.main()
