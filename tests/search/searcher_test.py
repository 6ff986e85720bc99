"""Raw rows in, hits out: the same as encoding and searching by hand."""

import os
import sys
import tempfile

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

import vdsh_tf
from tests.support import plain_hamming
from vdsh_tf import codes as codes_lib
from vdsh_tf.data import inputs
from vdsh_tf.data import streams
from vdsh_tf.search import answers
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.search.hasher import Hasher
from vdsh_tf.search.searcher import Searcher

pytest.importorskip("faiss", reason="search needs `pip install faiss-cpu`")


def encode(x):
    """Codes of 12 bits without any network."""
    return codes_lib.pack(inputs.check_features(x, 12) > 0)


class SearcherTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(50, 12))
        self.codes = encode(rng.normal(size=(80, 12)))
        self.ids = 100 + np.arange(80)
        self.index = HammingIndex(12)
        self.index.add(self.codes, self.ids)

    @parameterized.parameters(1, 7, 50, 256)
    def test_nearest(self, batch_size):
        hits = Searcher(encode, self.index, batch_size).search(self.x, k=4)
        want = self.index.search(encode(self.x), 4)
        self.assertLen(hits, 50)
        for (distances, ids), *wanted in zip(hits, *want, strict=True):
            np.testing.assert_array_equal([distances, ids], wanted)

    @parameterized.parameters(0, 2, 12)
    def test_radius(self, radius):
        searcher = Searcher(encode, self.index, batch_size=7)
        hits = searcher.search(self.x, radius=radius)
        distance = plain_hamming.all_distances(encode(self.x), self.codes)
        for row, (distances, ids) in zip(distance, hits, strict=True):
            inside = row <= radius
            want = sorted(zip(row[inside], self.ids[inside], strict=True))
            self.assertEqual(list(zip(distances, ids, strict=True)), want)

    def test_stream_keeps_queries_beside_their_hits(self):
        searcher = Searcher(encode, self.index, batch_size=20)
        rows = streams.ArrayRows(self.x)
        found = list(searcher.stream(rows, "x.npy", k=3))
        self.assertEqual([len(f.hits) for f in found], [20, 20, 10])
        np.testing.assert_array_equal(
            np.concatenate([f.rows for f in found]), self.x
        )
        hits = [hit for f in found for hit in f.hits]
        np.testing.assert_array_equal(hits, searcher.search(self.x, k=3))

    def test_error_names_rows_and_source(self):
        self.x[33, 2] = np.nan
        searcher = Searcher(encode, self.index, batch_size=10)
        message = "Rows 30 to 39 of {}.*count from 30.*in row 3"
        with self.assertRaisesRegex(ValueError, message.format("x.npy")):
            list(searcher.stream(streams.ArrayRows(self.x), "x.npy"))
        with self.assertRaisesRegex(ValueError, message.format("the queries")):
            searcher.search(self.x)

    def test_index_refuses_codes_of_another_length(self):
        searcher = Searcher(encode, HammingIndex(24))
        with self.assertRaisesRegex(ValueError, "3 bytes wide"):
            searcher.search(self.x, radius=1)

    @parameterized.parameters(0, -1, 2.5)
    def test_batch_size(self, size):
        with self.assertRaisesRegex(ValueError, "`batch_size` must be"):
            Searcher(encode, self.index, size)

    def test_nothing_to_search(self):
        self.assertEqual(Searcher(encode, self.index).search(self.x[:0]), [])

    def test_one_query_visits_few_files(self):
        """From the row in its file to the hits in theirs."""
        encoder = vdsh_tf.HashEncoder(2, 16, 12)
        encoder.build((None, 12))
        index = HammingIndex(12, "hash")
        index.add(self.codes)
        searcher = Searcher(Hasher(encoder), index)
        root = os.path.dirname(vdsh_tf.__file__)
        visited = set()

        def note(frame, event, arg):
            path = frame.f_code.co_filename
            if path.startswith(root):
                visited.add(os.path.relpath(path, root))

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.npy")
            np.save(path, self.x[:1])
            sys.setprofile(note)
            try:
                with answers.writer(os.path.join(folder, "hits.csv")) as write:
                    rows = streams.open_rows(path)
                    for found in searcher.stream(rows, "x.npy", k=5):
                        write(found.hits)
            finally:
                sys.setprofile(None)
        self.assertContainsSubset(
            {"search/searcher.py", "search/hasher.py", "search/hamming.py"},
            visited,
        )
        # With the tool itself, 13.
        self.assertLessEqual(len(visited), 12, sorted(visited))


if __name__ == "__main__":
    absltest.main()
