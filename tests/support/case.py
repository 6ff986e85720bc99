"""Base of the tests: absl's, with arrays compared by NumPy."""

import numpy as np
from absl.testing import parameterized


class TestCase(parameterized.TestCase):
    def assert_close(self, got, want, atol=1e-12, rtol=0.0, msg=""):
        np.testing.assert_allclose(
            np.asarray(got), np.asarray(want), rtol=rtol, atol=atol, err_msg=msg
        )

    def assert_equal(self, got, want, msg=""):
        np.testing.assert_array_equal(
            np.asarray(got), np.asarray(want), err_msg=msg
        )
