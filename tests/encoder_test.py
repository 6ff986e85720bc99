"""HashEncoder: normalisation, packing, growth that changes nothing."""

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import codes
from vdsh_tf import encoder as encoder_lib
from vdsh_tf import network
from vdsh_tf.initializers import LooksLinear


def _rows(num=50, dim=20, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num, dim)).astype("f4")


class UnitLengthTest(case.TestCase):
    @parameterized.parameters(1e-29, 1e-20, 1.0, 1e20, 5e37)
    def test_scale_does_not_matter(self, scale):
        rows = np.array([[3.0, 4.0], [1.0, 0.0]], "f4")
        got = network.unit_length(tf.constant(rows * np.float32(scale)))
        self.assert_close(got, [[0.6, 0.8], [1, 0]], atol=1e-6)

    @parameterized.parameters(0.0, 1e-39, 1e-45)
    def test_zero_row_stays_zero(self, value):
        rows = tf.constant([[value, -value, 0.0]])
        self.assert_equal(network.unit_length(rows), [[0] * 3])


class PackBitsTest(case.TestCase):
    @parameterized.parameters(1, 7, 8, 9, 16, 64, 127)
    def test_same_bytes_as_numpy(self, bits):
        embedding = np.maximum(_rows(30, bits), 0)
        got = network.pack_bits(tf.constant(embedding))
        self.assert_equal(got, codes.pack(codes.binarize(embedding)))
        self.assertEqual(got.dtype, tf.uint8)


class GrowthTest(case.TestCase):
    def test_inserting_layers_changes_no_output_bit(self):
        encoder = encoder_lib.HashEncoder(48, 32, 16, grow_from=3)
        x = _rows()
        encoder.build(x.shape)
        encoder.set_depth(3)
        shallow = encoder(x).numpy()
        self.assertGreater(np.count_nonzero(shallow), 100)
        for depth in (4, 17, 48):
            encoder.set_depth(depth)
            self.assertLen(encoder.active, depth)
            self.assertEqual(encoder(x).numpy().tobytes(), shallow.tobytes())

    def test_trained_layer_cannot_be_frozen(self):
        encoder = encoder_lib.HashEncoder(4, 8, 4, grow_from=2)
        encoder.build((None, 5))
        encoder.kernels[1].assign(2.0 * np.eye(8))
        with self.assertRaisesRegex(ValueError, "Layer 2 must be an identity"):
            encoder.set_depth(2)

    @parameterized.parameters(0, 1, 5, 2.0)
    def test_impossible_depth(self, depth):
        with self.assertRaisesRegex(ValueError, "from 2 to 4"):
            encoder_lib.HashEncoder(4, 8, 4, grow_from=depth)

    def test_one_layer_is_a_linear_hash(self):
        encoder = encoder_lib.HashEncoder(1, 8, 4)
        x = _rows()
        kernel_free = encoder(x)
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        want = np.maximum(unit @ encoder.kernels[0].numpy(), 0)
        self.assert_close(kernel_free, want, atol=1e-6)


class EncoderTest(case.TestCase):
    def test_matches_plain_forward_pass_of_raw_input(self):
        encoder = encoder_lib.HashEncoder(5, 16, 8, seed=3)
        x = 100 * _rows()
        got = encoder(x)
        z = x / np.linalg.norm(x, axis=1, keepdims=True)
        for kernel in encoder.kernels:
            z = np.maximum(z @ kernel.numpy(), 0)
        self.assert_close(got, z, atol=1e-6)

    def test_fingerprint_follows_the_weights(self):
        first, second = (encoder_lib.HashEncoder(3, 8, 4) for _ in range(2))
        first.build((None, 5))
        second.build((None, 5))
        self.assertEqual(first.fingerprint(), second.fingerprint())
        second.kernels[0].assign_add(1e-7 * np.ones((5, 8)))
        self.assertNotEqual(first.fingerprint(), second.fingerprint())

    @parameterized.parameters(
        {"bits": 0}, {"layers": 0}, {"width": -1}, {"bits": 2.5}
    )
    def test_bad_shape(self, **kwargs):
        ((name, value),) = kwargs.items()
        with self.assertRaisesRegex(ValueError, f"`{name}` must.*{value}"):
            encoder_lib.HashEncoder(**kwargs)

    def test_unknown_initializer(self):
        with self.assertRaisesRegex(ValueError, "looks_linear.*'zeros'"):
            encoder_lib.HashEncoder(initializer="zeros")

    @parameterized.parameters("he_normal", "glorot_uniform")
    def test_other_initializers_are_seeded_per_layer(self, name):
        encoder = encoder_lib.HashEncoder(4, 8, 4, initializer=name)
        encoder.build((None, 8))
        kernels = [k.numpy() for k in encoder.kernels]
        self.assertFalse(np.array_equal(kernels[1], kernels[2]))


class LooksLinearTest(case.TestCase):
    def test_deep_net_starts_as_an_orthogonal_map(self):
        x = tf.constant(_rows(10, 32))
        norms = []
        for depth in range(48):
            start = LooksLinear(paired_input=depth > 0, seed=depth)
            kernel = start((32 if depth == 0 else 64, 64))
            x = tf.nn.relu(tf.matmul(x, kernel))
            pairs = x[:, :32] - x[:, 32:]
            norms.append(np.linalg.norm(pairs, axis=1))
        self.assert_close(norms[0], norms[-1], rtol=1e-4)

    @parameterized.parameters((5, 7), (6, 3), (7, 8))
    def test_any_shape(self, d_in, d_out):
        kernel = LooksLinear(seed=1)((d_in, d_out))
        self.assertEqual(tuple(kernel.shape), (d_in, d_out))
        self.assertTrue(np.isfinite(kernel).all())

    def test_config_round_trip(self):
        start = LooksLinear(paired_input=False, seed=5)
        again = LooksLinear.from_config(start.get_config())
        self.assert_equal(start((4, 6)), again((4, 6)))
        self.assertIsInstance(start, keras.initializers.Initializer)


if __name__ == "__main__":
    absltest.main()
