"""The back-propagated network is the same network."""

import dataclasses

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import HashEncoder
from vdsh_tf import codes
from vdsh_tf.callbacks import Stage
from vdsh_tf.research.baselines import backprop
from vdsh_tf.research.benchmarks import quality
from vdsh_tf.research.benchmarks import rivals
from vdsh_tf.research.benchmarks import steps
from vdsh_tf.training.trainer import presets


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


class BaselineTest(case.TestCase):
    def test_reads_a_setting(self):
        got = rivals.parse("he_normal 4:2:1e-3,48:10:3e-4 dropout=.1")
        stages = (Stage(4, 2, 1e-3), Stage(48, 10, 3e-4))
        want = rivals.Baseline("he_normal", stages, (("dropout", 0.1),))
        self.assertEqual(got, want)
        self.assertEqual(
            got.name, "Adam he_normal 4:2:0.001,48:10:0.0003 dropout=0.1"
        )
        stages = (Stage(4, 2, 1e-3), Stage(16, 10, 3e-4))
        self.assertEqual(got.with_layers(16).stages, stages)

    @parameterized.parameters(
        ("looks_linear", "not enough values"),
        ("zeros 4:1:1e-3", "no start"),
        ("he_normal 1e-3", "layers:epochs:learning_rate"),
        ("he_normal 4:1:1e-3 plain", "unpack"),
        ("he_normal 4:1:1e-3 width=3", "width cannot be changed"),
        ("he_normal 4:1:1e-3 dropout=2", "nothing is left"),
    )
    def test_refuses_other_text(self, text, why):
        with self.assertRaisesRegex(ValueError, f"START STAGES.*{text}.*{why}"):
            rivals.parse(text)

    @parameterized.parameters(5, 48, 100)
    def test_best_settings_for_any_depth(self, layers):
        found = rivals.at_depth(layers, [])
        self.assertEqual({b.layers for b in found}, {layers})
        starts = {(b.start, len(b.stages)) for b in found}
        want = {("looks_linear", 1), ("looks_linear", 2), ("he_normal", 1)}
        self.assertEqual(starts, want)

    def test_given_settings_run_at_their_own_depth(self):
        texts = ["he_normal 8:2:1e-3", "he_normal 4:2:1e-3,16:2:1e-3"]
        (got,) = rivals.at_depth(16, texts)
        self.assertEqual(got, rivals.parse(texts[1]))
        rivals.check_depths(texts, [8, 16])
        with self.assertRaisesRegex(ValueError, "8, 48 layers.*16 layers"):
            rivals.check_depths(texts, [8, 48])

    def test_shares_the_settings_of_vdsh_that_it_does_not_name(self):
        run = presets.get("mnist")
        got = rivals.parse("he_normal 48:10:3e-4 weight_decay=0")
        want = dataclasses.replace(
            run,
            stages=(Stage(48, 10, 3e-4),),
            initializer="he_normal",
            weight_decay=0.0,
        )
        self.assertEqual(got.settings(run), want)


class MeasureTest(case.TestCase):
    def test_time_to_quality(self):
        points = [
            quality.Point(1.0, 4, 0.5, 0, 0),
            quality.Point(2.0, 4, 0.9, 0, 0),
            quality.Point(3.0, 8, 0.8, 0, 0),
        ]
        self.assertEqual(quality.time_to(points, 0.8), 2.0)
        self.assertIsNone(quality.time_to(points, 0.95))
        self.assertEqual(quality.time_to_stay(points, 0.8), 2.0)
        self.assertEqual(quality.time_to_stay(points, 0.5), 1.0)
        self.assertIsNone(quality.time_to_stay(points, 0.85))
        self.assertEqual(quality.at_time(points, 2.5), points[1])
        self.assertIsNone(quality.at_time(points, 0.5))

    def test_mean_of_runs(self):
        runs = [
            [quality.Point(1.0, 4, 0.5, 0.1, 0.2)],
            [quality.Point(3.0, 4, 0.7, 0.3, 0.4)],
        ]
        (got,) = quality.mean_points(runs)
        self.assert_close(got, [2.0, 4, 0.6, 0.2, 0.3])

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
