"""Mapped indexes: the hits of `HammingIndex`, from a file that stays closed."""

import json
import multiprocessing
import os
import struct
import tempfile

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import plain_hamming
from vdsh_tf.search import buckets
from vdsh_tf.search import engines
from vdsh_tf.search import map_files
from vdsh_tf.search import mapped
from vdsh_tf.search import scanning
from vdsh_tf.search.hamming import HammingIndex

pytest.importorskip("faiss", reason="search needs `pip install faiss-cpu`")


def ask(path, queries, results):
    found = mapped.MappedIndex(path).search(queries, 5)
    results.put((found.distances, found.ids))


class MappedTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "a.map")

    @parameterized.product(
        bits=(1, 5, 8, 21, 32, 61, 128),
        kind=mapped.KINDS,
        clusters=(None, 3),
        plain=(True, False),
    )
    def test_all_pairs(self, bits, kind, clusters, plain):
        rng = np.random.default_rng(bits)
        codes = plain_hamming.random_codes(rng, 500, bits, clusters)
        queries = np.concatenate(
            [plain_hamming.random_codes(rng, 4, bits), codes[:4]]
        )
        ids = np.arange(500) if plain else rng.permutation(10**6)[:500] - 1000
        mapped.write(
            self.path, codes, bits, kind, None if plain else ids, "abc"
        )
        index = mapped.MappedIndex(self.path, "abc", verify=True)
        self.assertEqual(
            (len(index), index.bits, index.kind), (500, bits, kind)
        )
        np.testing.assert_array_equal(np.sort(index.ids), np.sort(ids))
        for k in (1, 9, 500):
            found = index.search(queries, k)
            plain_hamming.check_search(found, k, queries, codes, ids)
        for radius in (0, 1, 2, 3, 4, bits):
            found = index.radius_search(queries, radius)
            plain_hamming.check_ball(found, radius, queries, codes, ids)

    def test_scan_in_parts(self):
        """Few queries spread the codes over threads, with the same hits."""
        rng = np.random.default_rng(0)
        codes = rng.integers(0, 256, (3 * scanning._LEAST, 8), np.uint8)
        queries = codes[[5, -5]] ^ np.uint8(1)
        for few in (queries[:1], queries):
            distances, rows = scanning.nearest(codes, few, 7)
            got = buckets.distances_to(codes[rows[0]], few[0])
            np.testing.assert_array_equal(got, distances[0])
            want = np.sort(buckets.distances_to(codes, few[0]))[:7]
            np.testing.assert_array_equal(distances[0], want)
            ball = scanning.within(codes, few, 16)
            inside = buckets.distances_to(codes, few[0]) <= 16
            self.assertCountEqual(ball[0][1], np.flatnonzero(inside))

    @parameterized.parameters(*mapped.KINDS)
    def test_saved_by_an_index(self, kind):
        codes = plain_hamming.random_codes(np.random.default_rng(0), 300, 21)
        index = HammingIndex(21, kind, "abc")
        index.add(codes, np.arange(300) - 7)
        index.save_mapped(self.path)
        loaded = engines.open_index(f"faiss:{self.path}", "abc")
        self.assertIsInstance(loaded, mapped.MappedIndex)
        for got, want in zip(
            loaded.search(codes, 1), index.search(codes, 1), strict=True
        ):
            np.testing.assert_array_equal(got, want)
        with self.assertRaisesRegex(ValueError, "or rebuild"):
            HammingIndex.load(self.path, "other")

    @parameterized.parameters(*mapped.KINDS)
    def test_empty(self, kind):
        mapped.write(self.path, np.zeros((0, 2), np.uint8), 16, kind)
        index = mapped.MappedIndex(self.path, verify=True)
        queries = np.zeros((3, 2), np.uint8)
        for radius in (1, 9):
            self.assertEmpty(index.radius_search(queries, radius).ids)
        with self.assertRaisesRegex(ValueError, "`k` must be"):
            index.search(queries, 1)

    def test_processes_share_a_file(self):
        codes = plain_hamming.random_codes(np.random.default_rng(0), 900, 64)
        mapped.write(self.path, codes, 64, "hash")
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        both = [
            context.Process(target=ask, args=(self.path, codes[:9], results))
            for _ in range(2)
        ]
        for process in both:
            process.start()
        (first, _), (second, _) = (results.get(timeout=120) for _ in both)
        for process in both:
            process.join(60)
        np.testing.assert_array_equal(first, second)
        self.assertFalse(first[:, 0].any())

    def test_does_not_change(self):
        mapped.write(self.path, np.zeros((3, 2), np.uint8), 16)
        index = HammingIndex.load(self.path)
        for change in (index.add, index.remove):
            with self.assertRaisesRegex(ValueError, "Build it anew"):
                change(np.zeros((1, 2), np.uint8))
        index.save()
        with self.assertRaisesRegex(ValueError, "Copy"):
            index.save(f"{self.path}2")

    def test_replaced_while_open(self):
        """Whoever has the old file open goes on with it."""
        mapped.write(self.path, np.zeros((3, 2), np.uint8), 16)
        old = mapped.MappedIndex(self.path)
        mapped.write(self.path, np.full((9, 2), 255, np.uint8), 16)
        query = np.zeros((1, 2), np.uint8)
        self.assertEqual(old.search(query, 3).distances.max(), 0)
        new = mapped.MappedIndex(self.path)
        self.assertEqual(new.search(query, 9).distances.min(), 16)

    def test_failed_write_leaves_the_old_one(self):
        mapped.write(self.path, np.zeros((3, 2), np.uint8), 16)
        bad = (
            (np.full((3, 2), 255, np.uint8), 13, "flat", None, "last 3 bits"),
            (np.zeros((3, 2), np.uint8), 16, "ivf", None, "`kind` must be"),
            (np.zeros((3, 2), np.uint8), 16, "hash", [1, 1, 2], "id 1 twice"),
            (np.zeros((3, 2), np.uint8), 99, "flat", None, "bytes wide"),
        )
        for codes, bits, kind, ids, message in bad:
            with self.assertRaisesRegex(ValueError, message):
                mapped.write(self.path, codes, bits, kind, ids)
        self.assertLen(mapped.MappedIndex(self.path, verify=True), 3)
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["a.map"])


class DamageTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "a.map")
        self.codes = plain_hamming.random_codes(
            np.random.default_rng(0), 300, 21
        )
        mapped.write(self.path, self.codes, 21, "hash")
        with open(self.path, "rb") as f:
            self.whole = f.read()

    def header(self):
        (size,) = struct.unpack("<I", self.whole[8:12])
        return json.loads(self.whole[12 : 12 + size])

    def forge(self, header):
        data = json.dumps(header).encode()
        start = map_files.MAGIC + struct.pack("<I", len(data)) + data
        with open(self.path, "wb") as f:
            f.write(start + self.whole[len(start) :])

    def refused(self, **kwargs):
        with self.assertRaisesRegex(ValueError, "complete mapped index"):
            mapped.MappedIndex(self.path, **kwargs)

    def test_missing(self):
        with self.assertRaisesRegex(FileNotFoundError, "there is none"):
            mapped.MappedIndex(f"{self.path}x")

    def test_truncated(self):
        for size in (8, 11, 100, 70_000, len(self.whole) - 1):
            with open(self.path, "wb") as f:
                f.write(self.whole[:size])
            self.refused()

    @parameterized.parameters("codes", "ids")
    def test_flipped_byte_is_found_by_verify(self, name):
        data = bytearray(self.whole)
        data[self.header()["arrays"][name]["offset"] + 9] ^= 8
        with open(self.path, "wb") as f:
            f.write(data)
        index = mapped.MappedIndex(self.path)
        index.search(self.codes[:5], 5)
        with self.assertRaisesRegex(ValueError, "SHA-256"):
            index.verify()
        self.refused(verify=True)

    @parameterized.parameters(10**12, -1)
    def test_buckets_that_lead_out_of_the_file(self, value):
        data = bytearray(self.whole)
        place = self.header()["arrays"]["starts"]["offset"] + 80
        data[place : place + 8] = struct.pack("<q", value)
        with open(self.path, "wb") as f:
            f.write(data)
        self.refused()

    @parameterized.parameters(
        {"count": 10**12},
        {"count": -1},
        {"count": 299},
        {"bits": 64},
        {"bits": 3},
        {"kind": "hnsw"},
        {"version": 2},
        {"format": "other"},
        {"fingerprint": 3},
        {"arrays": {}},
        {"arrays": []},
        {"arrays": 7},
    )
    def test_forged_header(self, **change):
        self.forge({**self.header(), **change})
        self.refused()

    @parameterized.product(
        name=("codes", "ids", "starts"),
        change=(
            {"offset": 10**12},
            {"offset": -4096},
            {"offset": "0"},
            {"shape": [10**12]},
            {"shape": [1]},
            {"shape": 3},
            {"dtype": "O"},
        ),
    )
    def test_forged_array(self, name, change):
        header = self.header()
        header["arrays"][name].update(change)
        self.forge(header)
        self.refused()

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
    def test_a_pipe_is_no_index(self):
        """It is refused, not waited for."""
        pipe = f"{self.path}.pipe"
        os.mkfifo(pipe)
        with self.assertRaisesRegex(FileNotFoundError, "an index file at"):
            engines.open_index(f"faiss:{pipe}")


if __name__ == "__main__":
    absltest.main()
