"""Bad arrays get an error that names the value and the cure."""

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf.data import inputs


def _good():
    rng = np.random.default_rng(0)
    return rng.random((20, 6)).astype("f4"), np.arange(20) % 3


def _model():
    model = VDSH(layers=2, width=8, bits=4, num_classes=3)
    model.compile()
    return model


class ArrayTest(case.TestCase):
    @parameterized.named_parameters(
        ("nan", lambda x: x.__setitem__((3, 1), np.nan), "NaN or inf in row 3"),
        ("inf", lambda x: x.__setitem__((4, 0), np.inf), "NaN or inf in row 4"),
        ("zero", lambda x: x.__setitem__(5, 0), "zeros in row 5"),
    )
    def test_bad_rows(self, spoil, message):
        x, y = _good()
        spoil(x)
        for call in (
            lambda: _model().fit(x, y, verbose=0),
            lambda: inputs.check_features(x),
        ):
            with self.assertRaisesRegex(ValueError, message):
                call()

    def test_wrong_width_after_build(self):
        x, y = _good()
        model = _model()
        model.fit(x, y, verbose=0)
        for call in (
            lambda: model.fit(x[:, :5], y, verbose=0),
            lambda: model.encode(x[:, :5]),
        ):
            with self.assertRaisesRegex(ValueError, r"6 wide.*\(20, 5\)"):
                call()

    @parameterized.parameters(
        ((20, 2, 3), "must be rows"), ((0, 6), "empty dataset")
    )
    def test_bad_shapes(self, shape, message):
        with self.assertRaisesRegex(ValueError, message):
            inputs.check_features(np.ones(shape))

    def test_text_features(self):
        with self.assertRaisesRegex(ValueError, "must be numbers"):
            inputs.check_features(np.array([["a"]]))

    @parameterized.parameters(-1, 3)
    def test_label_out_of_range(self, label):
        x, y = _good()
        y[7] = label
        with self.assertRaisesRegex(ValueError, f"label {label} in row 7"):
            _model().fit(x, y, verbose=0)

    def test_multi_hot_of_wrong_length(self):
        x, _ = _good()
        with self.assertRaisesRegex(ValueError, r"num_classes=3.*\(20, 4\)"):
            _model().fit(x, np.eye(4)[np.arange(20) % 4], verbose=0)

    def test_multi_hot_values(self):
        with self.assertRaisesRegex(ValueError, "0 or 1"):
            inputs.check_labels(np.full((3, 2), 0.5))

    def test_one_class_only(self):
        x, y = _good()
        with self.assertRaisesRegex(ValueError, "two classes.*only label 0"):
            _model().fit(x, 0 * y, verbose=0)

    def test_fractional_labels(self):
        with self.assertRaisesRegex(ValueError, "integers"):
            inputs.check_labels(np.array([0.0, 1.0]))

    def test_missing_labels(self):
        x, y = _good()
        with self.assertRaisesRegex(ValueError, "20 rows and 19 labels"):
            _model().fit(x, y[:-1], verbose=0)


if __name__ == "__main__":
    absltest.main()
