"""The same tests for every index: the faiss kinds, mapped files, Milvus."""

import importlib.util
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from absl.testing import absltest

from tests.support import plain_hamming
from tests.support import tool_runner
from vdsh_tf.search import engines
from vdsh_tf.search import importing
from vdsh_tf.search import mapped

faiss = pytest.importorskip(
    "faiss", reason="search needs `pip install faiss-cpu`"
)
pytest.importorskip("pyarrow", reason="needs `pip install pyarrow`")

from tests.support import parquet_parts  # noqa: E402
from vdsh_tf.encoding import code_parts  # noqa: E402

# Small searches only lose by threads.
faiss.omp_set_num_threads(1)
HAS_MILVUS = all(
    importlib.util.find_spec(name) for name in ("pymilvus", "milvus_lite")
)
if HAS_MILVUS:
    # Its import closes handlers of logs; absl's would close a stream that a
    # test, which had replaced it, needs again.
    importlib.import_module("pymilvus")
needs_milvus = pytest.mark.skipif(
    not HAS_MILVUS,
    reason="Milvus tests need `pip install 'vdsh_tf[milvus]'`",
)
# Fills an index and says how far it is, until it is killed.
IMPORT = """
import sys
from vdsh_tf.encoding import code_parts
from vdsh_tf.search import engines, importing
uri, kind, pattern = sys.argv[1:]
source = code_parts.CodeParts(pattern)
index = engines.create_index(uri, source.bits, kind, source.fingerprint)
importing.fill(index, source, progress=lambda n: print(n, flush=True), rows=50)
index.save()
"""


class Searched:
    """What holds for an index that is only searched."""

    name = "index.npz"
    kind = "flat"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    def setUp(self):
        super().setUp()
        self.place(self._testMethodName)

    def place(self, name):
        self.uri = f"{self.engine}:{self.folder}/{self.name.format(name)}"

    def open(self, encoder=None):
        index = engines.open_index(self.uri, encoder)
        self.addCleanup(getattr(index, "close", lambda: None))
        return index

    def check(self, index, codes, ids, queries, counts, radii):
        self.assertLen(index, len(codes))
        np.testing.assert_array_equal(np.sort(index.ids), np.sort(ids))
        exact = self.kind in ("flat", "hash")
        for k in counts:
            found = index.search(queries, k)
            plain_hamming.check_search(found, k, queries, codes, ids, exact)
        for radius in radii:
            found = index.radius_search(queries, radius)
            plain_hamming.check_ball(found, radius, queries, codes, ids)

    def test_all_pairs(self):
        for bits in (1, 61, 128):
            with self.subTest(bits=bits):
                self.place(f"all_pairs_{bits}")
                self.check_all_pairs(bits)

    def check_all_pairs(self, bits):
        rng = np.random.default_rng(bits)
        codes = plain_hamming.random_codes(rng, 400, bits, clusters=3)
        queries = plain_hamming.random_codes(rng, 3, bits)
        ids = rng.permutation(10**6)[:400] - 1000
        self.fill(bits, codes, ids)
        index = self.open("abc")
        self.assertEqual(
            (index.bits, index.kind, index.fingerprint),
            (bits, self.kind, "abc"),
        )
        radii = (0, 2, bits // 2, bits, bits + 3)
        self.check(index, codes, ids, queries, (1, 9, 400), radii)

    def test_bad_queries(self):
        codes = np.zeros((2, 2), np.uint8)
        self.fill(13, codes, np.arange(2))
        index = self.open()
        for k in (0, 3, -1, 1.5, True):
            with self.assertRaisesRegex(ValueError, "`k` must be"):
                index.search(codes, k)
        for radius in (-1, 0.5, None):
            with self.assertRaisesRegex(ValueError, "`radius` must be"):
                index.radius_search(codes, radius)
        for bad, message in (
            (np.zeros((1, 3), np.uint8), "2 bytes wide"),
            (np.zeros((1, 2), np.int8), "uint8"),
            (np.full((1, 2), 255, np.uint8), "last 3 bits"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                index.search(bad, 1)
            with self.assertRaisesRegex(ValueError, message):
                index.radius_search(bad, 1)

    def test_another_encoder(self):
        self.fill(8, np.zeros((2, 1), np.uint8), np.arange(2))
        self.assertEqual(self.open("abc").fingerprint, "abc")
        with self.assertRaisesRegex(ValueError, "or rebuild"):
            self.open("other")

    def test_there_is_none(self):
        with self.assertRaisesRegex(FileNotFoundError, "there is none"):
            self.open()

    def write_parts(self, codes, ids):
        """Three files of codes; returns their pattern."""
        folder = self.enter_context(tempfile.TemporaryDirectory())
        for i, part in enumerate(np.array_split(np.arange(len(codes)), 3)):
            parquet_parts.write_codes(
                f"{folder}/part-{i}.parquet", codes[part], ids[part], 61
            )
        return f"{folder}/*.parquet"

    def import_parts(self, pattern, *flags):
        out, error = tool_runner.run_tool(
            "index",
            f"--codes={pattern}",
            f"--index={self.uri}",
            f"--kind={self.kind}",
            *flags,
        )
        self.assertIsNone(error)
        return out

    def test_import(self):
        rng = np.random.default_rng(0)
        codes = plain_hamming.random_codes(rng, 700, 61, clusters=9)
        ids = rng.permutation(10**6)[:700]
        out = self.import_parts(self.write_parts(codes, ids), *self.flags)
        self.assertIn("700 codes of 61 bits", out)
        self.check(self.open("abc"), codes, ids, codes[:3], (5,), (3,))


class Changed(Searched):
    """What holds for an index that can be changed."""

    flags = ()

    def create(self, bits=8, encoder="abc", **kwargs):
        index = engines.create_index(
            self.uri, bits, self.kind, encoder, **kwargs
        )
        self.addCleanup(getattr(index, "close", lambda: None))
        return index

    def fill(self, bits, codes, ids):
        index = self.create(bits)
        index.add(codes[: len(codes) // 3], ids[: len(codes) // 3])
        index.add(codes[len(codes) // 3 :], ids[len(codes) // 3 :])
        index.save()

    def test_empty(self):
        index = self.create(16)
        queries = np.zeros((3, 2), np.uint8)
        self.assertEmpty(index)
        self.assertEmpty(index.ids)
        self.assertEmpty(index.radius_search(queries, 16).ids)
        with self.assertRaisesRegex(ValueError, "`k` must be"):
            index.search(queries, 1)

    def test_default_ids_follow_the_largest(self):
        index = self.create(8)
        codes = np.zeros((2, 1), np.uint8)
        index.add(codes)
        index.add(codes[:1], [7])
        index.add(codes)
        np.testing.assert_array_equal(index.ids, [0, 1, 7, 8, 9])

    def test_bad_changes(self):
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
        self.assertLen(index, 2)

    def test_remove_and_add_again(self):
        rng = np.random.default_rng(0)
        codes = plain_hamming.random_codes(rng, 300, 61, clusters=5)
        queries = plain_hamming.random_codes(rng, 5, 61)
        ids = 10**12 + np.arange(300) * 7
        index = self.create(61)
        index.add(codes, ids)
        index.remove(ids[::3])
        kept = np.arange(300) % 3 > 0
        self.check(index, codes[kept], ids[kept], queries, (9,), (28,))
        index.add(codes[~kept], ids[~kept])
        self.check(index, codes, ids, queries, (9,), (2, 28))

    def test_names(self):
        self.create().add(np.zeros((2, 1), np.uint8))
        index = self.create(overwrite=True)
        self.assertEmpty(index)
        index.add(np.zeros((3, 1), np.uint8))
        index.save()
        with self.assertRaisesRegex(FileExistsError, "overwrite=True"):
            self.create()
        self.assertLen(self.open(), 3)

    def test_add_missing(self):
        rng = np.random.default_rng(0)
        codes = plain_hamming.random_codes(rng, 30, 61)
        ids = rng.permutation(90)[:30]
        index = self.create(61)
        self.assertEqual(index.add_missing(codes[:0], ids[:0]), 0)
        self.assertEqual(index.add_missing(codes[5:15], ids[5:15]), 10)
        self.assertEqual(index.add_missing(codes, ids), 20)
        self.assertEqual(index.add_missing(codes[::-1], ids[::-1]), 0)
        self.check(index, codes, ids, codes[:5], (9,), (20,))
        with self.assertRaisesRegex(ValueError, "another code"):
            index.add_missing(codes[:9] ^ np.uint8(128), ids[:9])
        with self.assertRaisesRegex(ValueError, "id 5 twice"):
            index.add_missing(codes[:2], [5, 5])
        self.assertLen(index, 30)

    def test_import_that_fails_leaves_no_file(self):
        codes = np.zeros((9, 8), np.uint8)
        source = code_parts.CodeParts(self.write_parts(codes, np.arange(9)))

        def fail(done):
            raise OSError("disk full")

        with self.assertRaisesRegex(OSError, "disk full"):
            importing.fill(self.create(61), source, progress=fail)
        if self.engine == "faiss":
            self.assertFalse(os.path.exists(self.uri.partition(":")[2]))


class Killed(Changed):
    """What is left of an import, and how it goes on."""

    def test_import_killed_in_the_middle(self):
        """SIGKILL, at no point in particular; --resume does what is left."""
        rng = np.random.default_rng(0)
        codes = plain_hamming.random_codes(rng, 9_000, 61, clusters=9)
        ids = rng.permutation(10**6)[:9_000]
        pattern = self.write_parts(codes, ids)
        # Only one process has an embedded engine open.
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.place("killed")
        child = subprocess.Popen(
            [sys.executable, "-c", IMPORT, self.uri, self.kind, pattern],
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            for line in child.stdout:
                if int(line) >= 3_000:
                    child.kill()
                    break
        self.assertEqual(child.returncode, -9)
        out = self.import_parts(pattern, "--resume")
        self.assertIn("9000 codes of 61 bits", out)
        self.check(self.open("abc"), codes, ids, codes[:3], (5,), (2,))
        added = int(out.split(" of ")[0])
        self.assertGreater(added, 0)
        if self.engine == "milvus":
            self.assertLess(added, 6_100)
        out = self.import_parts(pattern, "--resume")
        self.assertIn("0 of 9000 codes added", out)


class Faiss(Changed):
    engine, name = "faiss", "{}.npz"


class FlatTest(Faiss, Killed, absltest.TestCase):
    pass


class HashTest(Faiss, absltest.TestCase):
    kind = "hash"


class InvertedFileTest(Faiss, absltest.TestCase):
    kind = "ivf"


class GraphTest(Faiss, absltest.TestCase):
    kind = "hnsw"


class MappedFlatTest(Searched, absltest.TestCase):
    engine, name = "faiss", "{}.map"
    flags = ("--mapped",)

    def fill(self, bits, codes, ids):
        path = self.uri.partition(":")[2]
        mapped.write(path, codes, bits, self.kind, ids, "abc")


class MappedHashTest(MappedFlatTest):
    kind = "hash"


@needs_milvus
class MilvusTest(Killed, absltest.TestCase):
    engine, name = "milvus", "codes.db#{}"


@needs_milvus
class MilvusPartitionTest(Changed, absltest.TestCase):
    engine, name = "milvus", "codes.db#{}/part"


if __name__ == "__main__":
    absltest.main()
