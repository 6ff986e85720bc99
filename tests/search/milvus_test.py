"""What is Milvus' own; `contract_test.py` has what all indexes share."""

import importlib.util
import sys
import tempfile
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest

from tests.support import plain_hamming
from vdsh_tf.search import engines
from vdsh_tf.search import milvus
from vdsh_tf.search import milvus_store

NEEDED = ("pymilvus", "milvus_lite")
needs_milvus = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason="Milvus tests need `pip install 'vdsh_tf[milvus]'`",
)


@needs_milvus
class MilvusIndexTest(absltest.TestCase):
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

    def test_collection_of_others(self):
        index = self.create(8)
        client, name = index._client, index._collection
        client.drop_collection(name)
        client.create_collection(name, dimension=8)
        with self.assertRaisesRegex(ValueError, "made by vdsh_tf"):
            self.open()

    def test_collection_of_an_older_version(self):
        """Its description names neither kind nor partitions."""
        header = mock.Mock(spec=milvus_store.Header)
        header._asdict.return_value = {"bits": 8, "fingerprint": None}
        header.configure_mock(bits=8, kind="flat", partitioned=False)
        client = milvus_store.connect(f"{self.folder.name}/codes.db")
        milvus_store.create(client, self._testMethodName, header, True)
        index = self.open()
        index.add(np.zeros((2, 1), np.uint8))
        self.assertEqual((index.kind, len(index)), ("flat", 2))
        self.uri += "/part"
        with self.assertRaisesRegex(FileNotFoundError, "a partition"):
            self.open()
        with self.assertRaisesRegex(ValueError, "made with partitions"):
            self.create(8)

    def test_kinds(self):
        for kind, message in (
            ("ivf", 'must be "flat" in the embedded Milvus'),
            ("hnsw", "one of flat, ivf"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                self.create(8, kind=kind)

    def test_partitions(self):
        """Each is an index of its own; the collection is all of them."""
        rng = np.random.default_rng(0)
        codes = plain_hamming.random_codes(rng, 300, 16)
        whole = self.uri
        ids = np.arange(300)
        parts = {"a": slice(0, 100), "b-1.x": slice(100, 300)}
        for name, part in parts.items():
            self.uri = f"{whole}/{name}"
            self.create(16, encoder="abc").add(codes[part], ids[part])
        for name, part in parts.items():
            self.uri = f"{whole}/{name}"
            index = self.open("abc")
            self.assertEqual(index.partition, name)
            np.testing.assert_array_equal(index.ids, ids[part])
            found = index.search(codes[:5], 100)
            plain_hamming.check_search(
                found, 100, codes[:5], codes[part], ids[part]
            )
            ball = index.radius_search(codes[:5], 5)
            plain_hamming.check_ball(ball, 5, codes[:5], codes[part], ids[part])
        with self.assertRaisesRegex(ValueError, "id 5 twice"):
            index.add(codes[:1], [5])
        with self.assertRaisesRegex(ValueError, "in another partition"):
            index.add_missing(codes[5:6], [5])
        with self.assertRaisesRegex(ValueError, "id 5 .1 unknown"):
            index.remove([5])
        with self.assertRaisesRegex(ValueError, "of one encoder"):
            self.create(16, encoder="other", overwrite=True)
        self.assertEmpty(self.create(16, encoder="abc", overwrite=True))
        self.uri = whole
        self.assertLen(self.open("abc"), 100)
        for name in ("a/b", "", "ä", "x" * 65, 'a" or id > 0 or part == "'):
            self.uri = f"{whole}/{name}"
            with self.assertRaisesRegex(ValueError, "collection/partition"):
                self.open()

    def test_cells(self):
        """What a server is asked; the embedded engine scans all the same."""
        kinds = {**milvus_store.KINDS, "ivf": "BIN_FLAT"}
        codes = plain_hamming.random_codes(np.random.default_rng(0), 90, 16)
        ids = np.arange(90)
        with (
            mock.patch.object(milvus_store, "KINDS", kinds),
            mock.patch.object(milvus_store, "check_kind"),
        ):
            index = self.create(16, kind="ivf")
        index.add(codes)
        index = self.open()
        self.assertEqual(index.kind, "ivf")
        real, asked = index._client.search, []

        def few_in_a_cell(*args, search_params, **kwargs):
            asked.append(search_params["params"]["nprobe"])
            found = real(*args, search_params=search_params, **kwargs)
            few = asked[-1] < milvus_store.CELLS
            return [hits[:7] for hits in found] if few else found

        with mock.patch.object(index._client, "search", few_in_a_cell):
            index.search(codes[:3], 7)
            self.assertEqual(asked, [milvus_store.PROBES])
            found = index.search(codes[:3], 9)
            plain_hamming.check_search(found, 9, codes[:3], codes, ids)
            ball = index.radius_search(codes[:3], 6)
            plain_hamming.check_ball(ball, 6, codes[:3], codes, ids)
        self.assertEqual(asked[-3:], 3 * [milvus_store.CELLS])

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
