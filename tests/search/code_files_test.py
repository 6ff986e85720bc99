"""Files of codes: written atomically, and never of an unknown maker."""

import json
import os
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from vdsh_tf.data import streams
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.search import code_files
from vdsh_tf.search.hasher import Hasher


class CodeFilesTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "codes.npy")
        encoder = HashEncoder(2, 16, 13)
        encoder.build((None, 6))
        self.hasher = Hasher(encoder)
        self.x = np.random.default_rng(0).normal(size=(50, 6))

    def write(self, x, **kwargs):
        rows = streams.ArrayRows(x)
        return code_files.write(
            self.path, rows, self.hasher, "abc", "x.npy", **kwargs
        )

    @parameterized.parameters(1, 7, 50, 1024)
    def test_batches_do_not_matter(self, size):
        seen = []
        self.write(self.x, batch_size=size, progress=seen.append)
        codes, about = code_files.read(self.path)
        np.testing.assert_array_equal(codes, self.hasher(self.x))
        np.testing.assert_array_equal(np.load(self.path), codes)
        self.assertEqual(seen[-1], 50)
        self.assertLen(seen, -(-50 // size))
        self.assertEqual(
            about,
            {"bits": 13, "count": 50, "fingerprint": "abc", "source": "x.npy"},
        )

    def test_bad_row_leaves_the_old_file(self):
        self.write(self.x)
        bad = self.x.copy()
        bad[33, 2] = np.nan
        with self.assertRaisesRegex(ValueError, "Rows 30 to 39.*in row 3"):
            self.write(bad, batch_size=10)
        codes, _ = code_files.read(self.path)
        np.testing.assert_array_equal(codes, self.hasher(self.x))
        self.assertLen(os.listdir(os.path.dirname(self.path)), 2)

    def test_nothing_to_encode(self):
        with self.assertRaisesRegex(ValueError, "at least one row"):
            self.write(self.x[:0])

    def test_maker_unknown(self):
        self.write(self.x)
        os.remove(f"{self.path}.json")
        with self.assertRaisesRegex(ValueError, "Encode again"):
            code_files.read(self.path)

    def test_missing(self):
        with self.assertRaisesRegex(FileNotFoundError, "tools/encode.py"):
            code_files.read(self.path)

    @parameterized.parameters({"count": 49}, {"bits": 24}, {"bits": None})
    def test_record_does_not_suit(self, **change):
        self.write(self.x)
        with open(f"{self.path}.json") as f:
            about = json.load(f)
        with open(f"{self.path}.json", "w") as f:
            json.dump({**about, **change}, f)
        if change == {"bits": None}:
            os.truncate(self.path, 100)
        with self.assertRaisesRegex(ValueError, "Encode again"):
            code_files.read(self.path)


if __name__ == "__main__":
    absltest.main()
