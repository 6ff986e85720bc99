"""Every hit is recomputed by popcount, every answer compared with all pairs."""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from unittest import mock

import hypothesis
import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized
from hypothesis import strategies as st

from tests import hamming
from vdsh_tf import index_files
from vdsh_tf import retrieval
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.retrieval import HammingIndex

faiss = pytest.importorskip(
    "faiss", reason="search needs `pip install faiss-cpu`"
)
# Small searches only lose by threads.
faiss.omp_set_num_threads(1)

QUICK = hypothesis.settings(max_examples=60, deadline=None, database=None)


class SearchTest(parameterized.TestCase):
    @parameterized.parameters("flat", "hash", "ivf", "hnsw")
    @hypothesis.given(data=st.data())
    @QUICK
    def test_all_pairs(self, kind, data):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        bits = data.draw(st.integers(1, 512), "bits")
        n = data.draw(st.integers(0, 200), "n")
        clusters = data.draw(st.sampled_from([None, 1, 3]), "clusters")
        codes = hamming.random_codes(rng, n + 4, bits, clusters)
        queries, codes = codes[:4], codes[4:]
        ids = rng.permutation(3 * n)[:n] - n
        index = HammingIndex(bits, kind)
        # A structure follows the first, and is outgrown by the second.
        split = data.draw(st.sampled_from([2 * n // 3, n // 3]), "split")
        index.add(codes[:split], ids[:split])
        if data.draw(st.booleans(), "search between adds") and split:
            index.search(queries, 1)
        index.add(codes[split:], ids[split:])
        self.assertLen(index, n)
        if n:
            k = data.draw(st.integers(1, n), "k")
            exact = kind in ("flat", "hash")
            found = index.search(queries, k)
            hamming.check_search(found, k, queries, codes, ids, exact)
        radius = data.draw(st.integers(0, bits + 3), "radius")
        for r in (radius, min(radius, 2)):
            found = index.radius_search(queries, r)
            hamming.check_ball(found, r, queries, codes, ids)

    @parameterized.parameters("flat", "hash", "ivf", "hnsw")
    def test_remove_and_add_again(self, kind):
        rng = np.random.default_rng(0)
        codes = hamming.random_codes(rng, 300, 61, clusters=5)
        queries = hamming.random_codes(rng, 5, 61)
        ids = 10**12 + np.arange(300) * 7
        index = HammingIndex(61, kind)
        index.add(codes, ids)
        index.search(queries, 3)
        gone = ids[::3]
        index.remove(gone)
        self.assertLen(index, 200)
        kept = ~np.isin(ids, gone)
        exact = kind in ("flat", "hash")
        hamming.check_search(
            index.search(queries, 9), 9, queries, codes[kept], ids[kept], exact
        )
        hamming.check_ball(
            index.radius_search(queries, 28), 28, queries, codes[kept],
            ids[kept],
        )  # fmt: skip
        index.add(codes[~kept], gone)
        hamming.check_ball(
            index.radius_search(queries, 2), 2, queries, codes, ids
        )

    @parameterized.parameters("hash", "ivf", "hnsw")
    def test_structures_do_the_work(self, kind):
        """The scan must not be what answers, or nothing is gained."""
        rng = np.random.default_rng(1)
        codes = hamming.random_codes(rng, 20_000, 64, clusters=50)
        index = HammingIndex(64, kind)
        index.add(codes)
        scan = mock.Mock(wraps=index._codes)
        index._codes, flat = scan, index._codes
        queries = codes[:50]
        found = index.search(queries, 5)
        scan.search.assert_not_called()
        want, _ = flat.search(queries, 5)
        recall = np.mean(found.distances == want)
        self.assertGreater(recall, 1 - 1e-9 if kind == "hash" else 0.9)
        if kind == "hash":
            index.radius_search(queries, 3)
            scan.range_search_c.assert_not_called()

    def test_scan_completes_what_a_structure_cannot(self):
        codes = np.zeros((40, 8), np.uint8)
        codes[1:] = 255  # 64 bits away: no bucket within reach holds them.
        index = HammingIndex(64, "hash")
        index.add(codes)
        found = index.search(codes[:1], 3)
        np.testing.assert_array_equal(found.distances, [[0, 64, 64]])

    def test_a_far_code_in_a_near_bucket_is_not_the_nearest(self):
        codes = np.zeros((2, 8), np.uint8)
        codes[0, 4:] = 255  # Same first bits, 32 bits away.
        codes[1, 0] = 0b111  # Three flips away in the first bits.
        index = HammingIndex(64, "hash")
        index.add(codes, [5, 6])
        found = index.search(np.zeros((1, 8), np.uint8), 1)
        self.assertEqual(found.ids.tolist(), [[6]])
        self.assertEqual(found.distances.tolist(), [[3]])

    def test_default_ids_follow_the_largest(self):
        codes = hamming.random_codes(np.random.default_rng(0), 6, 16)
        index = HammingIndex(16)
        index.add(codes[:2])
        index.add(codes[2:3], [40])
        index.add(codes[3:])
        np.testing.assert_array_equal(index.ids, [0, 1, 40, 41, 42, 43])

    def test_ivf_gets_more_cells_as_it_grows(self):
        rng = np.random.default_rng(0)
        index = HammingIndex(32, "ivf")
        index.add(hamming.random_codes(rng, 400, 32))
        index.search(hamming.random_codes(rng, 1, 32), 1)
        few = index._structure._index.nlist
        index.add(hamming.random_codes(rng, 4000, 32))
        index.search(hamming.random_codes(rng, 1, 32), 1)
        self.assertGreater(index._structure._index.nlist, few)


class BadInputTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        self.codes = hamming.random_codes(np.random.default_rng(0), 10, 12)
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
        for call in (
            self.index.add, self.index.search, self.index.radius_search,
        ):  # fmt: skip
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
        with self.assertRaisesRegex(ValueError, "fingerprint. Received: int"):
            HammingIndex(8, encoder=3)

    def test_faiss_missing(self):
        with (
            mock.patch.dict(sys.modules, {"faiss": None}),
            self.assertRaisesRegex(ImportError, "pip install"),
        ):
            HammingIndex(8)

    def test_import_needs_no_engine(self):
        check = (
            "import sys, vdsh_tf, vdsh_tf.engines\n"
            "bad = {'faiss', 'pymilvus', 'tensorflow_datasets'}\n"
            "sys.exit(str(bad & set(sys.modules)) if bad & set(sys.modules)"
            " else 0)"
        )
        subprocess.run([sys.executable, "-c", check], check=True)


class FileTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a.index")
        self.codes = hamming.random_codes(np.random.default_rng(0), 500, 61, 7)

    @parameterized.parameters("flat", "hash", "ivf", "hnsw")
    def test_round_trip(self, kind):
        index = HammingIndex(61, kind, encoder="f" * 32)
        index.add(self.codes, np.arange(500) - 250)
        index.save(self.path)
        loaded = HammingIndex.load(self.path, encoder="f" * 32)
        self.assertEqual(
            (loaded.bits, loaded.kind, loaded.fingerprint, len(loaded)),
            (61, kind, "f" * 32, 500),
        )
        for got, want in zip(
            loaded.search(self.codes, 7), index.search(self.codes, 7),
            strict=True,
        ):  # fmt: skip
            np.testing.assert_array_equal(got, want)
        loaded.remove([0])
        loaded.add(self.codes[250:251], [0])
        order = np.argsort(loaded.ids)
        np.testing.assert_array_equal(loaded.ids[order], np.arange(500) - 250)
        found = loaded.radius_search(self.codes[:9], 2)
        hamming.check_ball(
            found, 2, self.codes[:9], self.codes, np.arange(500) - 250
        )  # fmt: skip

    @parameterized.parameters("flat", "hash", "ivf", "hnsw")
    def test_empty_round_trip(self, kind):
        HammingIndex(61, kind).save(self.path)
        loaded = HammingIndex.load(self.path)
        self.assertEmpty(loaded)
        loaded.add(self.codes)
        self.assertLen(loaded, 500)

    def test_another_encoder(self):
        first, second = (HashEncoder(2, 8, 61, seed=s) for s in (1, 2))
        for encoder in (first, second):
            encoder.build((None, 4))
        index = HammingIndex(61, encoder=first)
        index.add(self.codes)
        index.save(self.path)
        self.assertLen(HammingIndex.load(self.path, first), 500)
        with self.assertRaisesRegex(ValueError, r"tools/index.py.*overwrite"):
            HammingIndex.load(self.path, second)

    def test_unnamed_encoder_is_not_trusted(self):
        index = HammingIndex(61)
        index.save(self.path)
        with self.assertRaisesRegex(ValueError, "an unnamed encoder"):
            HammingIndex.load(self.path, "f" * 32)

    @parameterized.parameters("flat", "ivf")
    def test_truncated_anywhere(self, kind):
        index = HammingIndex(61, kind)
        index.add(self.codes)
        index.save(self.path)
        with open(self.path, "rb") as f:
            whole = f.read()
        for size in {0, 1, 100, len(whole) // 2, len(whole) - 1}:
            with open(self.path, "wb") as f:
                f.write(whole[:size])
            with self.assertRaisesRegex(ValueError, "whole index file"):
                HammingIndex.load(self.path)

    def test_flipped_byte(self):
        index = HammingIndex(61)
        index.add(self.codes)
        index.save(self.path)
        with zipfile.ZipFile(self.path) as archive:
            start = archive.getinfo("codes.npy").header_offset
        with open(self.path, "r+b") as f:
            f.seek(start + 1000)
            byte = f.read(1)[0]
            f.seek(start + 1000)
            f.write(bytes([byte ^ 4]))
        with self.assertRaisesRegex(ValueError, "damaged"):
            HammingIndex.load(self.path)

    @parameterized.named_parameters(
        ("version", {"version": 2}),
        ("format", {"format": "other"}),
        ("kind", {"kind": "tree"}),
        ("bits", {"bits": 128}),
        ("count", {"count": 3}),
        ("structure", {"kind": "hash"}),
    )
    def test_header_does_not_suit(self, change):
        header = {
            "format": "vdsh_tf index", "version": 1, "bits": 61,
            "kind": "flat", "count": 500, "fingerprint": None,
        }  # fmt: skip
        arrays = {"codes": self.codes, "ids": np.arange(500)}
        for extra in ({}, change):
            text = np.array(json.dumps({**header, **extra}))
            with open(self.path, "wb") as f:
                np.savez(f, header=text, **arrays)
            if not extra:
                self.assertLen(HammingIndex.load(self.path), 500)
        with self.assertRaisesRegex(ValueError, "whole index file"):
            HammingIndex.load(self.path)

    def test_other_files(self):
        np.save(self.path + ".npy", self.codes)
        with self.assertRaisesRegex(ValueError, "another kind"):
            HammingIndex.load(self.path + ".npy")
        with self.assertRaisesRegex(FileNotFoundError, "there is none"):
            HammingIndex.load(self.path)

    def test_save_needs_a_folder(self):
        with self.assertRaisesRegex(FileNotFoundError, "folder"):
            HammingIndex(8).save(os.path.join(self.path, "x", "y"))
        with self.assertRaisesRegex(ValueError, "where to save"):
            HammingIndex(8).save()

    def test_failed_save_leaves_the_old_file(self):
        index = HammingIndex(61)
        index.add(self.codes[:3])
        index.save(self.path)
        index.add(self.codes[3:])

        def half(f, **kwargs):
            f.write(b"half of it")
            raise OSError("No space left on device")

        with (
            mock.patch.object(index_files.np, "savez", half),
            self.assertRaisesRegex(OSError, "No space"),
        ):
            index.save(self.path)
        self.assertLen(HammingIndex.load(self.path), 3)
        self.assertLen(os.listdir(os.path.dirname(self.path)), 1)

    def test_killed_save_leaves_a_whole_file(self):
        script = (
            "import os, signal, sys, time, numpy as np\n"
            "from vdsh_tf.retrieval import HammingIndex\n"
            "index = HammingIndex(64)\n"
            "index.add(np.zeros((200_000, 8), np.uint8))\n"
            "index.save(sys.argv[1])\n"
            "for delay in range(2, 100, 4):\n"
            "    child = os.fork()\n"
            "    while child == 0: index.save(sys.argv[1])\n"
            "    time.sleep(delay / 1000)\n"
            "    os.kill(child, signal.SIGKILL)\n"
            "    os.waitpid(child, 0)\n"
            "    assert len(HammingIndex.load(sys.argv[1])) == 200_000\n"
        )
        subprocess.run([sys.executable, "-c", script, self.path], check=True)
        left = os.listdir(os.path.dirname(self.path))
        # At least one was killed while it wrote, or nothing was tested.
        self.assertGreater(len(left), 1, left)


class BallTest(absltest.TestCase):
    def test_sorted_hits(self):
        ball = retrieval.Ball(
            np.array([0, 0, 3]), np.array([2, 0, 2]), np.array([9, 7, 4])
        )
        self.assertEqual([len(a) for a in ball.sorted_hits(0)], [0, 0])
        distances, ids = ball.sorted_hits(1)
        self.assertEqual(distances.tolist(), [0, 2, 2])
        self.assertEqual(ids.tolist(), [7, 4, 9])


if __name__ == "__main__":
    absltest.main()
