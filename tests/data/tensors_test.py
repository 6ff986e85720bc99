"""Bad `tf.data` datasets are refused, at once or in the batch that is bad."""

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf.data import tensors


def _good():
    rng = np.random.default_rng(0)
    return rng.random((20, 6)).astype("f4"), np.arange(20) % 3


class DatasetTest(case.TestCase):
    def _read(self, x, y, batch=5, width=None):
        data = tf.data.Dataset.from_tensor_slices((x, y))
        data = data.batch(batch) if batch else data
        return list(tensors.checked_dataset(data, width, 3))

    def test_good_data_passes_as_it_is(self):
        for y in (_good()[1], np.eye(3, dtype="f4")[_good()[1]]):
            got = self._read(_good()[0], y, width=6)
            self.assert_equal(np.concatenate([x for x, _ in got]), _good()[0])
            self.assert_equal(np.concatenate([y for _, y in got]), y)

    def test_another_width(self):
        with self.assertRaisesRegex(ValueError, "must be 7 wide"):
            self._read(*_good(), width=7)

    def test_model_checks_what_it_fits(self):
        x, y = _good()
        x[17, 2] = np.nan
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
        model = VDSH(layers=2, width=8, bits=4, num_classes=3)
        model.compile()
        with self.assertRaisesRegex(Exception, "NaN or inf"):
            model.fit(data, verbose=0)

    def test_fractional_labels(self):
        with self.assertRaisesRegex(ValueError, "must be integers"):
            self._read(_good()[0], _good()[1].astype("f4"))

    def test_nan_in_a_later_batch(self):
        x, y = _good()
        x[17, 2] = np.nan
        with self.assertRaisesRegex(Exception, "NaN or inf"):
            self._read(x, y)

    def test_zero_row(self):
        x, y = _good()
        x[17] = 0
        with self.assertRaisesRegex(Exception, "all zero"):
            self._read(x, y)

    def test_label_out_of_range(self):
        x, y = _good()
        y[11] = 3
        with self.assertRaisesRegex(Exception, "from 0 to 2"):
            self._read(x, y)

    def test_empty(self):
        x, y = _good()
        with self.assertRaisesRegex(ValueError, "an empty dataset"):
            self._read(x[:0], y[:0])

    def test_not_batched(self):
        with self.assertRaisesRegex(ValueError, "forget `.batch"):
            self._read(*_good(), batch=None)

    def test_multi_hot_of_wrong_length(self):
        x, _ = _good()
        with self.assertRaisesRegex(ValueError, "num_classes=3"):
            self._read(x, np.eye(4, dtype="f4")[np.arange(20) % 4])

    def test_labels_missing(self):
        data = tf.data.Dataset.from_tensor_slices(_good()[0]).batch(4)
        with self.assertRaisesRegex(ValueError, r"\(x, y\) pairs"):
            tensors.checked_dataset(data, None, 3)


class LabelVectorsTest(case.TestCase):
    @parameterized.parameters("float32", "float64")
    def test_integers_and_multi_hot(self, dtype):
        want = np.eye(3)[[2, 0]]
        for y in (tf.constant([2, 0]), tf.constant(want)):
            got = tensors.label_vectors(y, 3, dtype)
            self.assertEqual(got.dtype, dtype)
            self.assert_equal(got, want)


if __name__ == "__main__":
    absltest.main()
