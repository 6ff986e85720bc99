"""FastHash's blocks and their minimum cuts, against trying everything."""

import itertools

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.research.baselines import fasthash


class FastHashTest(case.TestCase):
    @parameterized.parameters(*range(6))
    def test_block_step_is_the_best_of_all(self, seed):
        rng = np.random.default_rng(seed)
        size = 8
        half = -rng.integers(0, 6, size=(size, size)) / 2
        inner = np.triu(half, 1) + np.triu(half, 1).T
        outer = rng.integers(-12, 13, size=size) / 2

        def value(z):
            return z @ inner @ z / 2 + outer @ z

        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=size)))
        got = fasthash.solve_block(inner, outer)
        self.assert_close(value(got), min(map(value, corners)))

    @parameterized.parameters(4, 5)
    def test_coupling_is_the_price_of_agreeing(self, bits):
        rng = np.random.default_rng(0)
        on = rng.random((6, 3)) < 0.5
        alike = rng.random((6, 6)) < 0.5
        alike |= alike.T
        pairs = (on[:, None] != on).sum(axis=2) + (bits + 1) * alike

        def mean(codes, length):
            total = 0
            for i in range(6):
                for j in range(6):
                    distance = np.sum(codes[i] != codes[j])
                    apart = max(length / 2 - distance, 0)
                    total += (distance if alike[i, j] else apart) ** 2
            return total / 36

        pairs = pairs.astype(np.int16)
        self.assert_close(fasthash.mean_cost(pairs, bits), mean(on, bits))
        bit = rng.random(6) < 0.5
        z = np.where(bit, 1.0, -1.0)
        longer = np.column_stack([on, bit])
        for length in (bits, 4):
            coupling = fasthash.bit_coupling(pairs, bits, length)
            # A pair that differs adds -2 a_ij, one that agrees nothing.
            got = (z @ coupling @ z - coupling.sum()) / 36 / 4
            want = mean(longer, length) - mean(on, length)
            self.assert_close(got, want, atol=1e-6)

    def test_blocks_cover_the_rows_and_share_a_label(self):
        rng = np.random.default_rng(1)
        y = rng.random((50, 4)) < 0.3
        blocks = fasthash.similar_blocks(y.astype("f4"), 6)
        self.assert_equal(np.sort(np.concatenate(blocks)), np.arange(50))
        for block in blocks:
            self.assertLessEqual(len(block), 6)
            self.assertTrue(len(block) == 1 or y[block].all(axis=0).any())


if __name__ == "__main__":
    absltest.main()
