"""The real embedded Milvus, against all pairs."""

import importlib.util
import sys
import tempfile
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import plain_hamming
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.search import engines
from vdsh_tf.search import milvus

NEEDED = ("pymilvus", "milvus_lite")
needs_milvus = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason="Milvus tests need `pip install 'vdsh_tf[milvus]'`",
)


@needs_milvus
class MilvusIndexTest(parameterized.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def setUp(self):
        super().setUp()
        place = f"{self.folder.name}/codes.db"
        self.uri = f"milvus:{place}#{self._testMethodName}"

    def create(self, bits=61, **kwargs):
        index = engines.create_index(self.uri, bits, **kwargs)
        self.addCleanup(index.close)
        return index

    def open(self, encoder=None):
        index = engines.open_index(self.uri, encoder)
        self.addCleanup(index.close)
        return index

    @parameterized.parameters(1, 8, 61, 128)
    def test_all_pairs(self, bits):
        rng = np.random.default_rng(bits)
        codes = plain_hamming.random_codes(rng, 400, bits, clusters=3)
        queries = plain_hamming.random_codes(rng, 3, bits)
        ids = rng.permutation(10**6)[:400] - 1000
        index = self.create(bits)
        self.assertEmpty(index)
        self.assertEmpty(index.radius_search(queries, bits).ids)
        index.add(codes[:150], ids[:150])
        index.add(codes[150:], ids[150:])
        index.save()
        index = self.open()
        self.assertLen(index, 400)
        np.testing.assert_array_equal(index.ids, np.sort(ids))
        for k in (1, 9, 400):
            found = index.search(queries, k)
            plain_hamming.check_search(found, k, queries, codes, ids)
        for radius in (0, 2, bits // 2, bits):
            found = index.radius_search(queries, radius)
            plain_hamming.check_ball(found, radius, queries, codes, ids)
        index.remove(ids[:30])
        found = index.radius_search(queries, bits)
        plain_hamming.check_ball(found, bits, queries, codes[30:], ids[30:])

    def test_ball_beyond_what_milvus_returns(self):
        """17,500 equal codes: Milvus returns 16,384 hits at most."""
        codes = np.zeros((20_000, 2), np.uint8)
        codes[::8] = 255
        index = self.create(16)
        index.add(codes)
        ball = index.radius_search(codes[1:2], 1)
        distances, ids = ball.sorted_hits(0)
        want = np.flatnonzero(codes[:, 0] == 0)
        np.testing.assert_array_equal(ids, want)
        self.assertFalse(distances.any())
        with self.assertRaisesRegex(ValueError, "at most 16384"):
            index.search(codes[:1], 16385)

    def test_default_ids_follow_the_largest(self):
        index = self.create(8)
        codes = np.zeros((2, 1), np.uint8)
        index.add(codes)
        index.add(codes[:1], [7])
        index.add(codes)
        np.testing.assert_array_equal(index.ids, [0, 1, 7, 8, 9])

    def test_bad_input(self):
        index = self.create(8)
        codes = np.zeros((2, 1), np.uint8)
        index.add(codes)
        with self.assertRaisesRegex(ValueError, "id 1 twice"):
            index.add(codes, [1, 2])
        with self.assertRaisesRegex(ValueError, "id 5 twice"):
            index.add(codes, [5, 5])
        with self.assertRaisesRegex(ValueError, "1 bytes wide"):
            index.add(np.zeros((2, 2), np.uint8))
        with self.assertRaisesRegex(ValueError, "id 9 .1 unknown"):
            index.remove([0, 9])
        with self.assertRaisesRegex(ValueError, "`k` must be"):
            index.search(codes, 3)
        with self.assertRaisesRegex(ValueError, "`radius` must be"):
            index.radius_search(codes, -1)
        self.assertLen(index, 2)

    def test_another_encoder(self):
        first, second = (HashEncoder(2, 8, 8, seed=s) for s in (1, 2))
        for encoder in (first, second):
            encoder.build((None, 4))
        self.create(8, encoder=first)
        self.assertEqual(self.open(first).fingerprint, first.fingerprint())
        with self.assertRaisesRegex(ValueError, "or rebuild"):
            self.open(second)

    def test_names(self):
        with self.assertRaisesRegex(FileNotFoundError, "there is none"):
            self.open()
        self.create(8).add(np.zeros((2, 1), np.uint8))
        with self.assertRaisesRegex(FileExistsError, "overwrite=True"):
            self.create(8)
        self.assertLen(self.open(), 2)
        self.assertEmpty(self.create(16, overwrite=True))
        with self.assertRaisesRegex(ValueError, '`kind` must be "flat"'):
            self.create(8, kind="hnsw")

    def test_collection_of_others(self):
        index = self.create(8)
        client, name = index._client, index._collection
        client.drop_collection(name)
        client.create_collection(name, dimension=8)
        with self.assertRaisesRegex(ValueError, "made by vdsh_tf"):
            self.open()

    def test_address_that_does_not_answer(self):
        with self.assertRaisesRegex(ConnectionError, "must answer at http"):
            engines.open_index("milvus:http://127.0.0.1:9#codes")

    def test_collection_gone(self):
        index = self.create(8)
        index._client.drop_collection(index._collection)
        with self.assertRaisesRegex(RuntimeError, "Milvus could not query"):
            index.search(np.zeros((1, 1), np.uint8), 1)


class WithoutMilvusTest(absltest.TestCase):
    def test_says_how_to_install(self):
        with (
            mock.patch.dict(sys.modules, {"pymilvus": None}),
            self.assertRaisesRegex(ImportError, r"vdsh_tf\[milvus\]"),
        ):
            milvus.MilvusIndex.open("codes.db", "codes")


if __name__ == "__main__":
    absltest.main()
