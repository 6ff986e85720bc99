"""Time of training steps."""

import numpy as np
from absl.testing import absltest

from tests.support import case
from vdsh_tf.research.benchmarks import steps


class StepsTest(case.TestCase):
    def test_scanned_layers_compute_what_layers_written_out_do(self):
        scanned = steps.layer_chain(3, 8, 5, scanned=True)()
        unrolled = steps.layer_chain(3, 8, 5, scanned=False)()
        for got, want in zip(scanned, unrolled, strict=True):
            self.assert_close(got, want, atol=1e-5)

    def test_exponent(self):
        sizes = np.array([2, 4, 8, 16])
        self.assertAlmostEqual(steps.exponent(sizes, 3.0 * sizes**1.7), 1.7)


if __name__ == "__main__":
    absltest.main()
