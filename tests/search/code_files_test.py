"""Files of codes: written atomically, and never of an unknown maker."""

import concurrent.futures
import hashlib
import json
import os
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from vdsh_tf import files
from vdsh_tf.data import streams
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.search import code_files
from vdsh_tf.search.hasher import Hasher

MISSING = object()


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

    def read_bytes(self):
        with open(self.path, "rb") as f:
            return f.read()

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
            {
                "bits": 13,
                "count": 50,
                "fingerprint": "abc",
                "sha256": hashlib.sha256(self.read_bytes()).hexdigest(),
                "source": "x.npy",
            },
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

    def change_record(self, change):
        with open(f"{self.path}.json") as f:
            about = {**json.load(f), **change}
        about = {k: v for k, v in about.items() if v is not MISSING}
        with open(f"{self.path}.json", "w") as f:
            json.dump(about, f)

    @parameterized.named_parameters(
        ("count", {"count": 49}),
        ("count_type", {"count": "50"}),
        ("count_fraction", {"count": 50.0}),
        ("bits", {"bits": 24}),
        ("bits_type", {"bits": None}),
        ("bits_bool", {"bits": True}),
        ("no_bits", {"bits": MISSING}),
        ("no_fingerprint", {"fingerprint": MISSING}),
        ("fingerprint_type", {"fingerprint": 7}),
        ("fingerprint_empty", {"fingerprint": ""}),
        ("digest", {"sha256": "0" * 64}),
        ("digest_type", {"sha256": 5}),
    )
    def test_record_does_not_suit(self, change):
        self.write(self.x)
        self.change_record(change)
        with self.assertRaisesRegex(ValueError, "Encode again"):
            code_files.read(self.path)

    @parameterized.parameters("[1]", "7", "", "{", "[" * 100_000, "null")
    def test_record_is_no_record(self, text):
        self.write(self.x)
        with open(f"{self.path}.json", "w") as f:
            f.write(text)
        with self.assertRaisesRegex(ValueError, "Encode again"):
            code_files.read(self.path)

    def test_record_of_an_older_version(self):
        self.write(self.x)
        self.change_record({"sha256": MISSING})
        codes, _ = code_files.read(self.path)
        np.testing.assert_array_equal(codes, self.hasher(self.x))

    def test_any_other_byte(self):
        self.write(self.x)
        whole = self.read_bytes()
        for at in range(len(whole)):
            changed = bytearray(whole)
            changed[at] ^= 1 << at % 8
            with open(self.path, "wb") as f:
                f.write(changed)
            with self.assertRaisesRegex(ValueError, "Encode again"):
                code_files.read(self.path)

    def test_truncated(self):
        self.write(self.x)
        for size in (0, 5, 100, os.path.getsize(self.path) - 1):
            os.truncate(self.path, size)
            with self.assertRaisesRegex(ValueError, "Encode again"):
                code_files.read(self.path)

    def test_pipes_are_not_waited_for(self):
        self.write(self.x)
        os.remove(f"{self.path}.json")
        os.mkfifo(f"{self.path}.json")
        with self.assertRaisesRegex(ValueError, "not a file"):
            code_files.read(self.path)

    def test_one_writer_at_a_time(self):
        with (
            concurrent.futures.ThreadPoolExecutor(1) as pool,
            files.locked(self.path),
            self.assertRaisesRegex(RuntimeError, "at a time"),
        ):
            pool.submit(self.write, self.x).result()
        self.write(self.x)
        self.assertLen(os.listdir(os.path.dirname(self.path)), 2)


if __name__ == "__main__":
    absltest.main()
