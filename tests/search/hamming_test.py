"""Every hit is recomputed by popcount, and compared with all pairs.

`contract_test.py` has what all indexes share.
"""

from unittest import mock

import hypothesis
import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized
from hypothesis import strategies as st

from tests.support import plain_hamming
from vdsh_tf.search import hamming
from vdsh_tf.search.hamming import HammingIndex

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
        codes = plain_hamming.random_codes(rng, n + 4, bits, clusters)
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
            plain_hamming.check_search(found, k, queries, codes, ids, exact)
        radius = data.draw(st.integers(0, bits + 3), "radius")
        for r in (radius, min(radius, 2)):
            found = index.radius_search(queries, r)
            plain_hamming.check_ball(found, r, queries, codes, ids)

    @parameterized.parameters("hash", "ivf", "hnsw")
    def test_structures_do_the_work(self, kind):
        """The scan must not find the hits, or nothing is gained."""
        rng = np.random.default_rng(1)
        codes = plain_hamming.random_codes(rng, 20_000, 64, clusters=50)
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

    def test_ivf_gets_more_cells_as_it_grows(self):
        rng = np.random.default_rng(0)
        index = HammingIndex(32, "ivf")
        index.add(plain_hamming.random_codes(rng, 400, 32))
        index.search(plain_hamming.random_codes(rng, 1, 32), 1)
        few = index._structure.index.nlist
        index.add(plain_hamming.random_codes(rng, 4000, 32))
        index.search(plain_hamming.random_codes(rng, 1, 32), 1)
        self.assertGreater(index._structure.index.nlist, few)


class BallTest(absltest.TestCase):
    def test_sorted_hits(self):
        ball = hamming.Ball(
            np.array([0, 0, 3]), np.array([2, 0, 2]), np.array([9, 7, 4])
        )
        self.assertEqual([len(a) for a in ball.sorted_hits(0)], [0, 0])
        distances, ids = ball.sorted_hits(1)
        self.assertEqual(distances.tolist(), [0, 2, 2])
        self.assertEqual(ids.tolist(), [7, 4, 9])


if __name__ == "__main__":
    absltest.main()
