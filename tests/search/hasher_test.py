"""The two ways to a code agree, and bad rows are refused."""

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from vdsh_tf import codes
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.search.hasher import Hasher


class HasherTest(parameterized.TestCase):
    @parameterized.product(bits=(1, 13, 64), layers=(1, 8), grow=(False, True))
    def test_agrees_with_the_encoder(self, bits, layers, grow):
        grow_from = 2 if grow and layers > 1 else None
        encoder = HashEncoder(layers, 32, bits, grow_from=grow_from, seed=3)
        encoder.build((None, 20))
        if grow_from:
            encoder.set_depth(2)
        x = np.random.default_rng(0).normal(size=(50, 20)).astype(np.float32)
        x[0] *= 1e30
        x[1] *= 1e-30
        embedding = encoder(x).numpy()
        sure = np.abs(_responses(encoder, x)) > 1e-5
        hasher = Hasher(encoder)
        many = hasher(x)
        one = np.concatenate([hasher(x[i : i + 1]) for i in range(len(x))])
        for got in (many, one):
            self.assertEqual(got.dtype, np.uint8)
            bits_of = codes.unpack(got, bits)
            np.testing.assert_array_equal(bits_of[sure], (embedding > 0)[sure])
        self.assertGreater(sure.mean(), 0.99)

    @parameterized.parameters("unit", "center", "standardize", "auto")
    def test_normalises_as_the_encoder_does(self, normalization):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(50, 20)) * 10.0 ** np.arange(-10, 10) + 3
        x[:, 4] = 7
        encoder = HashEncoder(3, 32, 24, normalization=normalization)
        encoder.build((None, 20))
        encoder.adapt(x)
        x[0] *= 1e25
        x[1] *= 1e-25
        x = x.astype(np.float32)
        sure = np.abs(_responses(encoder, x)) > 1e-5
        hasher = Hasher(encoder)
        one = np.concatenate([hasher(row[None]) for row in x])
        for got in (hasher(x), one):
            bits = codes.unpack(got, 24)
            np.testing.assert_array_equal(
                bits[sure], (encoder(x).numpy() > 0)[sure]
            )
            self.assertGreater(len(np.unique(got, axis=0)), 10)
        self.assertGreater(sure.mean(), 0.9)

    @parameterized.parameters(2, 20)
    def test_keeps_its_weights_when_the_encoder_changes(self, rows):
        encoder = HashEncoder(3, 16, 8)
        encoder.build((None, 6))
        x = np.random.default_rng(0).random((rows, 6), np.float32)
        hasher = Hasher(encoder)
        encoder.kernels[0].assign(-encoder.kernels[0])
        before = hasher(x)
        encoder.kernels[0].assign(-encoder.kernels[0])
        np.testing.assert_array_equal(before, Hasher(encoder)(x))

    @parameterized.parameters(np.uint8, np.int32, np.float16, np.float64)
    def test_any_numbers(self, dtype):
        encoder = HashEncoder(2, 16, 8)
        encoder.build((None, 6))
        x = np.random.default_rng(0).integers(1, 200, (6, 6))
        want = Hasher(encoder)(x.astype(np.float32))
        np.testing.assert_array_equal(Hasher(encoder)(x.astype(dtype)), want)
        np.testing.assert_array_equal(
            Hasher(encoder)(x[:2].astype(dtype)), want[:2]
        )

    @parameterized.parameters(1, 9)
    def test_bad_rows(self, n):
        encoder = HashEncoder(2, 16, 8)
        encoder.build((None, 6))
        hasher = Hasher(encoder)
        good = np.ones((n, 6), np.float32)
        for value, message in (
            (np.nan, "NaN or inf in row 0"),
            (np.inf, "NaN or inf"),
            (0.0, "zero"),
        ):
            bad = good.copy()
            bad[0] = value
            with self.assertRaisesRegex(ValueError, message):
                hasher(bad)
        with self.assertRaisesRegex(ValueError, "6 wide"):
            hasher(np.ones((n, 5)))

    def test_needs_weights(self):
        with self.assertRaisesRegex(ValueError, "no weights"):
            Hasher(HashEncoder(2, 16, 8))


def _responses(encoder, x):
    """What the code layer's ReLU sees."""
    mean, scale = encoder.normalization_arrays()
    x = x if mean is None else x - mean
    x = x if scale is None else x * scale
    x = tf.cast(x, tf.float64)
    x /= tf.norm(x, axis=1, keepdims=True)
    *hidden, top = [
        tf.cast(k.value, tf.float64) for k in encoder.active_kernels
    ]
    for kernel in hidden:
        x = tf.nn.relu(x @ kernel)
    return (x @ top).numpy()


if __name__ == "__main__":
    absltest.main()
