"""The back-propagated network is the same network."""

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests import case
from vdsh_tf import HashEncoder
from vdsh_tf import codes
from vdsh_tf import presets
from vdsh_tf.baselines import backprop
from vdsh_tf.benchmarks import quality
from vdsh_tf.benchmarks import steps
from vdsh_tf.callbacks import Stage


def _rows(num=40, dim=12):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num, dim)).astype("f4")
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class BackpropTest(case.TestCase):
    @parameterized.parameters("looks_linear", "he_normal")
    def test_starts_with_the_encoders_codes(self, start):
        x = _rows()
        model = backprop.build(12, 3, 5, 16, 8, start, seed=4)
        encoder = HashEncoder(5, 16, 8, initializer=start, seed=4)
        want = codes.pack(codes.binarize(encoder(x)))
        self.assert_equal(backprop.encode(model, x), want)

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


class BaselineTest(case.TestCase):
    def test_reads_a_setting(self):
        got = quality.parse_baseline("he_normal:3e-4:plain", 48, 10)
        want = quality.Baseline("he_normal", (Stage(48, 10, 3e-4),), False)
        self.assertEqual(got, want)
        got = quality.parse_baseline("looks_linear:1e-3", 4, 2)
        self.assertTrue(got.regularized)
        self.assertEqual(got.name, "Adam 4, looks_linear, 0.001")

    @parameterized.parameters(
        "looks_linear", "zeros:1e-3", "he_normal:fast", "he_normal:1e-3:noisy"
    )
    def test_refuses_other_text(self, text):
        with self.assertRaisesRegex(ValueError, f"START:RATE.*{text!r}"):
            quality.parse_baseline(text, 4, 1)

    def test_shares_the_regularisation_of_vdsh_unless_plain(self):
        run = presets.get("mnist")
        stages = (Stage(48, 10, 3e-4),)
        same = quality.Baseline("looks_linear", stages).settings(run)
        self.assertEqual(same, run)
        plain = quality.Baseline("looks_linear", stages, False).settings(run)
        self.assertEqual(
            (plain.noise, plain.dropout, plain.weight_decay), (0, 0, 0)
        )
        self.assertEqual(plain.batch_size, run.batch_size)


class MeasureTest(case.TestCase):
    def test_time_to_quality(self):
        points = [
            quality.Point(1.0, 4, 0.5, 0, 0),
            quality.Point(2.0, 4, 0.9, 0, 0),
            quality.Point(3.0, 8, 0.8, 0, 0),
        ]
        self.assertEqual(quality.time_to(points, 0.8), 2.0)
        self.assertIsNone(quality.time_to(points, 0.95))
        self.assertEqual(quality.at_time(points, 2.5), points[1])
        self.assertIsNone(quality.at_time(points, 0.5))

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
