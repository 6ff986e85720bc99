"""The back-propagated network is the same network."""

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import HashEncoder
from vdsh_tf import codes
from vdsh_tf.research.baselines import backprop


def _rows(num=40, dim=12):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num, dim)).astype("f4")
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class BackpropTest(case.TestCase):
    @parameterized.parameters("looks_linear", "he_normal")
    def test_starts_with_the_encoders_codes(self, start):
        x = _rows()
        model = backprop.build(12, 3, 5, 16, 8, start, seed=4)
        encoder = HashEncoder(5, 16, 8, start, 5, 4, normalization="unit")
        want = codes.pack(codes.binarize(encoder(x)))
        network = backprop.code_network(model)
        self.assert_equal(backprop.encode(network, x), want)

    def test_inserted_identities_change_no_bit(self):
        x = _rows()
        model = backprop.build(12, 3, 3, 16, 8, "looks_linear")
        deeper = backprop.insert_identities(model, 9)
        self.assertLen(deeper.layers, 10)
        self.assert_equal(
            model.predict(x, verbose=0), deeper.predict(x, verbose=0)
        )

    def test_loss_is_the_data_term(self):
        y, scores = np.array([[1.0, 0.0]]), np.array([[0.5, 2.0]])
        got = backprop.half_squared_error(y, scores)
        self.assert_close(got, [0.5 * (0.25 + 4.0)])


if __name__ == "__main__":
    absltest.main()
