"""Low-rank sample matrices against dense ones."""

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import reference
from vdsh_tf.solver import weight_copies
from vdsh_tf.solver.weight_copies import RankOne
from vdsh_tf.solver.weight_copies import SampleMatrix


class SampleMatrixTest(case.TestCase):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        shared = rng.normal(size=(4, 3))
        terms, dense = [], np.tile(shared, (5, 1, 1))
        for scale in (1.0, -2.0):
            x, a = rng.normal(size=(5, 4)), rng.normal(size=(5, 3))
            terms.append(RankOne(scale, tf.constant(x), tf.constant(a)))
            dense = dense + scale * np.einsum("bi,bo->bio", x, a)
        self.matrix = SampleMatrix(tf.constant(shared), tuple(terms))
        self.dense = dense
        self.rng = rng

    def test_matvec(self):
        x = self.rng.normal(size=(5, 4))
        want = np.einsum("bi,bio->bo", x, self.dense)
        self.assert_close(self.matrix.matvec(x), want, atol=1e-12)

    def test_rmatvec(self):
        g = self.rng.normal(size=(5, 3))
        want = np.einsum("bo,bio->bi", g, self.dense)
        self.assert_close(self.matrix.rmatvec(g), want, atol=1e-12)

    def test_squared_norm(self):
        want = np.sum(self.dense**2, axis=(1, 2))
        self.assert_close(self.matrix.squared_norm(), want, atol=1e-10)


class DirectionsTest(case.TestCase):
    @parameterized.parameters((9, 4), (4, 9))
    def test_matches_the_dense_metric(self, num, dim):
        x = 0.5 + np.random.default_rng(5).normal(size=(num, dim))
        got = weight_copies.directions(tf.constant(x), 0.2)
        want = np.linalg.solve(reference.input_metric(x, 0.2), x.T).T
        self.assert_close(got, want, rtol=0, atol=1e-10)

    def test_zero_rows_stay_zero(self):
        got = weight_copies.directions(tf.zeros([3, 2]), 0.1)
        self.assert_equal(got, np.zeros((3, 2)))


if __name__ == "__main__":
    absltest.main()
