"""Statistics of rows, the rule of "auto", and data that could break them."""

import subprocess
import sys

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized
from sklearn import datasets as sklearn_datasets

from tests.support import case
from vdsh_tf.data import gist
from vdsh_tf.data import normalization

F32_MAX = np.finfo(np.float32).max


def _rng():
    return np.random.default_rng(0)


def _kind(x):
    return normalization.choose(normalization.measure(normalization.sample(x)))


def _fit(x, kind="standardize"):
    return normalization.fit(normalization.sample(x), kind)


def _pictures(count=300, side=32):
    """Smooth pictures with all grey values, as photographs have them."""
    small = _rng().uniform(0, 255, (count, 4, 4, 1)) * 0.6 + 50
    return tf.image.resize(small, (side, side), "bicubic").numpy()


def _bag_of_words(count=500, words=300):
    """Counts of words whose frequency falls as in natural text."""
    frequency = 2 / np.arange(1, words + 1)
    return _rng().poisson(frequency, (count, words))


class RuleTest(case.TestCase):
    @parameterized.parameters(
        ("wine", "standardize"),
        ("breast_cancer", "standardize"),
        ("diabetes", "unit"),
        ("digits", "center"),
    )
    def test_tables(self, name, want):
        x = getattr(sklearn_datasets, f"load_{name}")().data
        self.assertEqual(_kind(x), want)

    def test_pixels(self):
        self.assertEqual(_kind(_pictures().reshape(300, -1)), "center")

    def test_strokes_on_black(self):
        x = np.where(_pictures() > 140, _pictures(), 0).reshape(300, -1)
        self.assertGreater(np.mean(x == 0), 0.5)
        self.assertEqual(_kind(x), "unit")

    def test_gist(self):
        self.assertEqual(_kind(gist.gist(_pictures(60))), "center")

    def test_bag_of_words(self):
        x = _bag_of_words()
        self.assertGreater(np.mean(x == 0), 0.5)
        self.assertEqual(_kind(x), "unit")
        self.assertEqual(_kind(x / np.sum(x, axis=1, keepdims=True)), "unit")

    def test_marks_beside_numbers_in_large_units(self):
        marks = _rng().random((500, 40)) < 0.1
        money = _rng().lognormal(8, 1, (500, 2))
        self.assertEqual(_kind(np.hstack([marks, money])), "standardize")

    def test_principal_components(self):
        for decay in (0.8, 0.9):
            x = _rng().normal(size=(500, 64)) * decay ** np.arange(64)
            self.assertEqual(_kind(x), "unit")

    def test_one_column_that_drowns_centred_others(self):
        x = _rng().normal(size=(500, 20))
        self.assertEqual(_kind(x), "unit")
        x[:, 3] *= 1e4
        self.assertEqual(_kind(x), "standardize")

    @parameterized.parameters(1e-30, 1e-3, 1e3, 1e30)
    def test_a_common_unit_changes_nothing(self, unit):
        for name in ("wine", "digits", "diabetes"):
            x = getattr(sklearn_datasets, f"load_{name}")().data
            self.assertEqual(_kind(x * unit), _kind(x))

    def test_outliers_change_nothing(self):
        for x in (sklearn_datasets.load_digits().data, _bag_of_words()):
            want = _kind(x)
            x = x.astype(np.float64)
            x[7, 5] = 1e30
            self.assertEqual(_kind(x), want)


class MeasureTest(case.TestCase):
    def test_by_hand(self):
        # Variances 1, 4 and 0; mean (1, 0, 2).
        x = np.array([[0, -2, 2], [2, 2, 2], [2, -2, 2], [0, 2, 2]], "f4")
        found = normalization.measure(x)
        self.assert_close(found.mean, [1, 0, 2])
        self.assert_close(found.deviation, [1, 2, 0])
        self.assertAlmostEqual(found.zeros, 2 / 12)
        self.assertAlmostEqual(found.mean_share, 5 / 10)
        self.assertAlmostEqual(found.spread, 25 / (3 * 17))

    def test_many_columns_are_measured_in_parts(self):
        x = _rng().normal(3, 2, size=(19, 600)).astype(np.float32)
        found = normalization.measure(x)
        self.assert_close(found.mean, x.mean(axis=0, dtype="f8"))
        self.assert_close(found.deviation, x.std(axis=0, dtype="f8"))

    @parameterized.parameters((1000, 1), (5000, 5))
    def test_outliers_are_clipped(self, count, outliers):
        clean = _rng().normal(3, 2, size=(count, 4))
        dirty = clean.copy()
        dirty[:outliers, 1] = 1e30
        dirty[-outliers:, 2] = -1e30
        want, got = (
            normalization.measure(normalization.sample(x))
            for x in (clean, dirty)
        )
        self.assert_close(got.mean, want.mean, atol=0.02)
        self.assert_close(got.deviation, want.deviation, rtol=0.02)
        self.assertAlmostEqual(got.mean_share, want.mean_share, delta=0.01)


class FitTest(case.TestCase):
    def test_standardize(self):
        x = _rng().normal(size=(15, 3)) * [1, 10, 100] + [5, 6, 7]
        mean, scale = _fit(x)
        self.assert_close(mean, x.mean(axis=0), rtol=1e-6)
        z = (x - mean) * scale
        deviation = z.std(axis=0)
        self.assert_close(deviation / deviation[0], [1, 1, 1], rtol=1e-5)
        self.assertEqual(scale.max(), 1)
        self.assertEqual((mean.dtype, scale.dtype), (np.float32, np.float32))

    def test_center_and_unit(self):
        x = _rng().normal(size=(15, 3)) + 5
        mean, scale = _fit(x, "center")
        self.assert_close(mean, x.mean(axis=0), rtol=1e-6)
        self.assert_equal(scale, np.ones(3))
        mean, scale = _fit(x, "unit")
        self.assert_equal(mean, np.zeros(3))
        self.assert_equal(scale, np.ones(3))

    def test_auto_is_what_the_rule_says(self):
        x = sklearn_datasets.load_wine().data
        for got, want in zip(_fit(x, "auto"), _fit(x), strict=True):
            self.assert_equal(got, want)

    @parameterized.parameters(0.0, 1.0, -1e20, 1e-20, 0.1)
    def test_a_constant_column_is_ignored(self, value):
        x = _rng().normal(size=(50, 3)) + 5
        x[:, 1] = value
        mean, scale = _fit(x)
        self.assertEqual(scale[1], 0)
        self.assertTrue((scale[[0, 2]] > 0).all())
        self.assertTrue(np.isfinite(mean).all())

    def test_so_is_one_that_varies_less_than_float32_can_tell(self):
        x = _rng().normal([5, 1e9], size=(50, 2))
        self.assert_equal(_fit(x)[1], [1, 0])

    def test_a_rare_mark_weighs_no_more_than_other_columns(self):
        x = _rng().normal(size=(2000, 3)) + 5
        x[:, 1] = 0
        x[100, 1] = 1
        mean, scale = _fit(x)
        z = (x - mean) * scale
        self.assert_close(z[100, 1], z[:, 0].std(), rtol=0.1)
        self.assert_equal(z[:100, 1], np.zeros(100))

    @parameterized.parameters(*normalization.CHOICES)
    def test_rows_that_do_not_vary_stay(self, kind):
        for x in ([[3.0, 4.0]], [[3.0, 4.0]] * 30, np.zeros((1, 2))):
            mean, scale = _fit(x, kind)
            self.assert_equal(mean, [0, 0])
            self.assert_equal(scale, [1, 1])

    @parameterized.product(
        dtype=(bool, np.uint8, np.int64, np.float16, np.float64),
        kind=normalization.CHOICES,
        width=(1, 5),
        count=(1, 2, 25),
    )
    def test_any_shape_and_dtype(self, dtype, kind, width, count):
        x = _rng().integers(0, 2, (count, width)).astype(dtype)
        mean, scale = _fit(x, kind)
        for array in (mean, scale):
            self.assertEqual(array.shape, (width,))
            self.assertTrue(np.isfinite(array).all())
        self.assertEqual(scale.max(), 1)

    @parameterized.parameters(1e-45, 1e-38, 1e30, 3e38, 1e300)
    def test_any_magnitude(self, unit):
        x = (_rng().normal(size=(100, 4)) + 2) * [unit, 1, unit, 1]
        for kind in normalization.CHOICES:
            mean, scale = _fit(x, kind)
            self.assertTrue(np.isfinite(mean).all())
            self.assertTrue(((scale >= 0) & (scale <= 1)).all())
            tiny = np.finfo(np.float32).tiny
            for array in (mean, scale):
                self.assertFalse(((array != 0) & (abs(array) < tiny)).any())


class SampleTest(case.TestCase):
    def test_arrays_and_batches_give_the_same(self):
        x = _rng().normal(size=(100, 4))
        y = np.arange(100)
        want = normalization.sample(x)
        self.assert_equal(want, x.astype(np.float32))
        slices = tf.data.Dataset.from_tensor_slices
        batches = [x[:32], x[32:64], x[64:]]
        for data in (
            slices(x).batch(32),
            slices((x, y)).batch(32),
            slices((x, y, y)).batch(7),
            iter(batches),
            _Indexed(batches),
            tf.constant(x),
            x.tolist(),
        ):
            self.assert_equal(normalization.sample(data), want)

    def test_large_arrays_are_drawn_from_everywhere(self):
        x = np.arange(100_000)[:, None]
        rows = normalization.sample(x)
        self.assertLen(rows, 20_000)
        self.assertLen(np.unique(rows), 20_000)
        self.assert_close(rows.mean() / x.mean(), 1, atol=0.02)
        self.assert_equal(normalization.sample(x), rows)

    def test_streams_without_end(self):
        endless = tf.data.Dataset.counter().map(lambda i: tf.fill([300, 2], i))
        rows = normalization.sample(endless)
        self.assertEqual(rows.shape, (20_000, 2))
        self.assertEqual(rows[-1, 0], 19_999 // 300)

    def test_wide_rows_are_fewer(self):
        rows = normalization.sample(np.zeros((9000, 4096), np.uint8))
        self.assertLen(rows, 4096)

    def test_beyond_float32(self):
        rows = normalization.sample(np.array([[1e300, -1e300, 1.0]]))
        self.assert_equal(rows, np.array([[F32_MAX, -F32_MAX, 1]], np.float32))

    @parameterized.parameters(
        (np.zeros((0, 3)), "at least one"),
        (np.zeros((3, 0)), "at least one"),
        (np.zeros(3), r"shape=\(3,\)"),
        (np.array([[np.nan, 1]]), "finite"),
        (np.array([[np.inf, 1]]), "finite"),
    )
    def test_bad_arrays(self, x, message):
        with self.assertRaisesRegex(ValueError, message):
            normalization.sample(x)

    def test_bad_streams(self):
        slices = tf.data.Dataset.from_tensor_slices
        with self.assertRaisesRegex(ValueError, r"\[batch, d\].*shape=\(3,\)"):
            normalization.sample(slices(np.ones((4, 3))))
        with self.assertRaisesRegex(ValueError, "empty dataset"):
            normalization.sample(slices(np.ones((0, 3))).batch(2))
        with self.assertRaisesRegex(ValueError, "finite"):
            normalization.sample(slices(np.full((4, 3), np.nan)).batch(2))


class ImportTest(absltest.TestCase):
    def test_needs_numpy_alone(self):
        code = (
            "import sys, vdsh_tf.data.normalization\n"
            "print({'tensorflow', 'keras', 'sklearn'} & set(sys.modules))"
        )
        found = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(found.stdout.strip(), "set()")


class _Indexed:
    """Batches by number, as `keras.utils.PyDataset` gives them."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index], None


if __name__ == "__main__":
    absltest.main()
