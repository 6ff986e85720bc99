"""What an index refuses: nothing of a bad call stays in it."""

import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import plain_hamming
from vdsh_tf.search.hamming import HammingIndex

faiss = pytest.importorskip(
    "faiss", reason="search needs `pip install faiss-cpu`"
)
# Small searches only lose by threads.
faiss.omp_set_num_threads(1)


class BadInputTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        self.codes = plain_hamming.random_codes(
            np.random.default_rng(0), 10, 12
        )
        self.index = HammingIndex(12)
        self.index.add(self.codes)

    @parameterized.named_parameters(
        ("width", lambda c: np.zeros((2, 3), np.uint8), "2 bytes wide"),
        ("dtype", lambda c: c.astype(np.float32), "uint8 array"),
        ("unpacked", lambda c: c.astype(bool), "uint8 array"),
        ("list", lambda c: c.tolist(), "uint8 array"),
        ("rank", lambda c: c[0], "one row per item"),
        ("padding", lambda c: c | 1, "last 4 bits"),
    )
    def test_codes(self, spoil, message):
        bad = spoil(self.codes)
        index = self.index
        for call in (index.add, index.search, index.radius_search):
            with self.assertRaisesRegex(ValueError, message):
                call(bad)
        self.assertLen(self.index, 10)

    @parameterized.named_parameters(
        ("twice", [11, 11], "id 11 twice"),
        ("known", [11, 3], "id 3 twice"),
        ("count", [11], "2 codes and 1 ids"),
        ("floats", [11.0, 12.0], "row of integers"),
        ("rank", [[11, 12]], "row of integers"),
        ("huge", np.array([11, 2**63], np.uint64), "at most"),
    )
    def test_ids(self, ids, message):
        with self.assertRaisesRegex(ValueError, message):
            self.index.add(self.codes[:2], ids)
        self.assertLen(self.index, 10)
        np.testing.assert_array_equal(self.index.ids, np.arange(10))

    def test_no_room_for_default_ids(self):
        self.index.add(self.codes[:1], [2**63 - 2])
        with self.assertRaisesRegex(ValueError, "Give `ids`"):
            self.index.add(self.codes[:2])

    @parameterized.parameters(0, -1, 11, 2.0, True, None)
    def test_k(self, k):
        with self.assertRaisesRegex(ValueError, "`k` must be.*10"):
            self.index.search(self.codes, k)

    def test_empty_index_has_no_neighbour(self):
        index = HammingIndex(12, "hash")
        with self.assertRaisesRegex(ValueError, "items in the index, 0"):
            index.search(self.codes, 1)
        self.assertEmpty(index.radius_search(self.codes, 12).ids)

    @parameterized.parameters(-1, 1.5, True, None)
    def test_radius(self, radius):
        with self.assertRaisesRegex(ValueError, "`radius` must be"):
            self.index.radius_search(self.codes, radius)

    def test_remove_unknown_removes_nothing(self):
        with self.assertRaisesRegex(ValueError, "id 99 .1 unknown"):
            self.index.remove([1, 99])
        self.assertLen(self.index, 10)

    @parameterized.parameters(0, -8, 2.0, True)
    def test_bits(self, bits):
        with self.assertRaisesRegex(ValueError, "`bits` must be"):
            HammingIndex(bits)

    def test_kind(self):
        with self.assertRaisesRegex(ValueError, "flat, hash, ivf, hnsw"):
            HammingIndex(8, "tree")

    def test_encoder(self):
        with self.assertRaisesRegex(ValueError, "fingerprint.* Received: int"):
            HammingIndex(8, encoder=3)

    def test_faiss_missing(self):
        with (
            mock.patch.dict(sys.modules, {"faiss": None}),
            self.assertRaisesRegex(ImportError, "pip install"),
        ):
            HammingIndex(8)

    def test_import_needs_no_engine(self):
        check = (
            "import sys, vdsh_tf, vdsh_tf.search.engines\n"
            "bad = {'faiss', 'pymilvus', 'tensorflow_datasets'}\n"
            "sys.exit(str(bad & set(sys.modules)) if bad & set(sys.modules)"
            " else 0)"
        )
        subprocess.run([sys.executable, "-c", check], check=True)


if __name__ == "__main__":
    absltest.main()
