"""Any rows, labels and settings: refused in a sentence, or taken exactly."""

import numpy as np
from absl.testing import absltest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support import case
from vdsh_tf.data import inputs
from vdsh_tf.recipes import Stages
from vdsh_tf.training.config import TrainingConfig

QUICK = settings(max_examples=150, deadline=None, database=None)
KINDS = st.one_of(
    hnp.floating_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.boolean_dtypes(),
    hnp.complex_number_dtypes(),
    hnp.unicode_string_dtypes(max_len=2),
    hnp.datetime64_dtypes(),
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def directions(x):
    """Rows of length one by float64, the plain way."""
    x = np.asarray(x, np.float64)
    peak = np.abs(x).max(axis=1, keepdims=True)
    x = x / peak
    return x / np.sqrt(np.square(x).sum(axis=1, keepdims=True))


class PropertiesTest(case.TestCase):
    @QUICK
    @given(hnp.arrays(KINDS, SHAPES), st.booleans())
    def test_features(self, x, scale_free):
        try:
            found = inputs.check_features(x, scale_free=scale_free)
        except ValueError as error:
            self.assertRegex(str(error), "^Features must|^There must")
            return
        self.assertEqual(found.shape, x.shape)
        as_float32 = found.astype(np.float32)
        self.assertTrue(np.isfinite(as_float32).all())
        self.assertTrue((np.abs(as_float32).max(axis=1) > 0).all())
        if not scale_free:
            self.assert_equal(found, x)

    @QUICK
    @given(
        hnp.arrays(
            np.float64,
            (3, 4),
            elements=st.floats(0.01, 1).map(lambda v: round(v, 3)),
        ),
        st.integers(-1000, 1000),
    )
    def test_a_power_of_two_changes_no_direction(self, x, power):
        scaled = np.ldexp(x, power)
        found = inputs.check_features(scaled, scale_free=True)
        self.assert_close(
            directions(found.astype(np.float32)), directions(x), atol=1e-6
        )
        self.assert_equal(scaled, np.ldexp(x, power), "the input was changed")

    @QUICK
    @given(hnp.arrays(KINDS, SHAPES), st.integers(2, 4), st.booleans())
    def test_labels(self, y, classes, several):
        try:
            found = inputs.check_labels(y, classes, several)
        except ValueError as error:
            self.assertRegex(str(error), "[Ll]abels must")
            return
        self.assertEqual(len(found), len(y))
        if found.ndim == 1:
            self.assertTrue(((found >= 0) & (found < classes)).all())
            self.assert_equal(found, np.asarray(y).reshape(-1).astype(int))
        else:
            self.assertEqual(found.shape[1], classes)
            self.assertTrue(np.isin(found, (0, 1)).all())

    @QUICK
    @given(st.text(alphabet="0123456789:,.e-+ naif", max_size=20))
    def test_stages(self, text):
        try:
            stages = Stages.parse(text)
        except ValueError as error:
            self.assertIn("`stages` must read", str(error))
            return
        self.assertEqual(Stages.parse(str(stages)), stages)

    @QUICK
    @given(st.data())
    def test_config(self, data):
        """A changed setting is refused, or stored as it was read."""
        config = TrainingConfig().to_json()
        group = data.draw(st.sampled_from(sorted(config)))
        place = config
        if isinstance(config[group], dict) and data.draw(st.booleans()):
            place, group = (
                config[group],
                data.draw(st.sampled_from(sorted(config[group]))),
            )
        place[group] = data.draw(JSON)
        try:
            found = TrainingConfig.from_json(config)
        except ValueError as error:
            self.assertRegex(str(error), "must")
            return
        want = {**TrainingConfig().to_json()["network"], **config["network"]}
        self.assertEqual(found.to_json()["network"], want)


if __name__ == "__main__":
    absltest.main()
