"""Search among some items: against a plain scan, for every engine."""

import os
import tempfile

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import plain_hamming
from vdsh_tf.search import mapped
from vdsh_tf.search import subsets
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.search.milvus import MilvusIndex

BITS = 20
IDS = np.random.default_rng(1).permutation(10_000)[:300].astype(np.int64)


def codes(count, seed=0):
    rng = np.random.default_rng(seed)
    return np.packbits(rng.random((count, BITS)) < 0.5, axis=1)


class SubsetsTest(case.TestCase):
    def make(self, kind, ids=IDS):
        if kind == "milvus":
            pytest.importorskip("milvus_lite")
        folder = self.enter_context(tempfile.TemporaryDirectory())
        if kind == "mapped":
            path = os.path.join(folder, "index")
            mapped.write(path, codes(300), BITS, "hash", ids)
            return mapped.MappedIndex(path)
        if kind == "milvus":
            path = os.path.join(folder, "index.db")
            index = MilvusIndex.create(path, "items", BITS)
            self.addCleanup(index.close)
        else:
            index = HammingIndex(BITS, kind)
        index.add(codes(300), ids)
        return index

    @parameterized.parameters("flat", "hash", "mapped", "milvus")
    def test_restricted(self, kind):
        index = self.make(kind)
        chosen = np.sort(np.concatenate([IDS[::3], [10_001, 10_002]]))
        part = subsets.restrict(index, chosen)
        self.assertLen(part, 100)
        queries = codes(5, seed=2)
        distance = plain_hamming.all_distances(queries, codes(300)[::3])
        by_id = dict(zip(IDS[::3].tolist(), distance.T, strict=True))
        found = part.search(queries, 7)
        np.testing.assert_array_equal(
            found.distances, np.sort(distance, axis=1)[:, :7]
        )
        for i, ids in enumerate(found.ids):
            got = [by_id[number][i] for number in ids.tolist()]
            np.testing.assert_array_equal(found.distances[i], got)
        ball = part.radius_search(queries, 6)
        for i in range(5):
            distances, ids = ball.sorted_hits(i)
            want = {n for n, d in by_id.items() if d[i] <= 6}
            self.assertEqual(set(ids.tolist()), want)
            self.assertTrue((distances <= 6).all())
        with self.assertRaisesRegex(ValueError, "from 1 to"):
            part.search(queries, 101)

    @parameterized.product(
        kind=("flat", "mapped", "milvus"), plain=(True, False)
    )
    def test_codes_of(self, kind, plain):
        ids = np.arange(300) if plain else IDS
        index = self.make(kind, ids)
        places = np.array([5, 299, 0, 5])
        np.testing.assert_array_equal(
            subsets.codes_of(index, ids[places]), codes(300)[places]
        )
        np.testing.assert_array_equal(
            subsets.known(index, [ids[3], 10_001, -1, ids[0]]),
            [True, False, False, True],
        )
        for bad in ([10_001], [-1], [ids[0], 10_001]):
            with self.assertRaisesRegex(ValueError, "must be in the index"):
                subsets.codes_of(index, bad)
        self.assertEmpty(subsets.restrict(index, [10_001]))

    def test_after_changes(self):
        index = self.make("flat")
        index.remove(IDS[:10])
        index.add(codes(3, seed=5), [20_000, 15_000, 17_000])
        np.testing.assert_array_equal(
            index.codes_of([15_000, IDS[10], 20_000]),
            [codes(3, seed=5)[1], codes(300)[10], codes(3, seed=5)[0]],
        )
        empty = HammingIndex(BITS)
        self.assertEqual(empty.codes_of([]).shape, (0, 3))
        with self.assertRaisesRegex(ValueError, "must be in the index"):
            empty.codes_of([0])


if __name__ == "__main__":
    absltest.main()
