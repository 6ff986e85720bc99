"""HashTransformer among scikit-learn's own tools."""

import functools
import io
import pickle

import joblib
import numpy as np
import pytest
import sklearn.base
from absl.testing import absltest
from absl.testing import parameterized
from sklearn import datasets
from sklearn.model_selection import GridSearchCV
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import vdsh_tf
from tests.support import case
from vdsh_tf import HashTransformer
from vdsh_tf import codes as codes_lib
from vdsh_tf.evaluation import metrics

# Checks of scikit-learn that a hashing network cannot pass, and why.
DOES_NOT_APPLY = {
    "check_estimators_dtypes": "gives a row of zeros, which has no direction: "
    "it is refused",
    "check_sample_weight_equivalence_on_dense_data": "expects equal codes "
    "from weights and from repeated rows; weights are exact in a batch, but "
    "batches are made of rows, and repeated rows make others",
}


@parametrize_with_checks(
    [HashTransformer(bits=8, layers=2, width=8, epochs=2)],
    expected_failed_checks=lambda _: DOES_NOT_APPLY,
)
def test_scikit_learn(estimator, check):
    check(estimator)


def _small(**kwargs):
    return HashTransformer(
        **{"bits": 12, "layers": 3, "width": 16, "epochs": 20, **kwargs}
    )


@functools.cache
def _wine():
    return train_test_split(
        *datasets.load_wine(return_X_y=True), test_size=0.3, random_state=0
    )


@functools.cache
def _fitted():
    x, _, y, _ = _wine()
    return _small().fit(x, y)


class HashTransformerTest(case.TestCase):
    def test_raw_features_are_told_apart(self):
        x, x_test, y, y_test = _wine()
        hasher = HashTransformer(bits=16, width=32).fit(x, y)
        self.assertGreater(hasher.score(x_test, y_test), 0.9)

    def test_transform(self):
        x = _wine()[1]
        got = _fitted().transform(x)
        self.assertEqual(got.dtype, np.uint8)
        self.assertEqual(got.shape, (len(x), 2))
        self.assert_equal(got, _fitted().model_.encode(x.astype("f4")))

    def test_unpacked(self):
        x, x_test, y, y_test = _wine()
        hasher = _small(packed=False).fit(x, y)
        want = codes_lib.unpack(_fitted().transform(x_test), 12)
        self.assert_equal(hasher.transform(x_test), want)
        self.assertLen(hasher.get_feature_names_out(), 12)
        self.assertEqual(
            hasher.score(x_test, y_test), _fitted().score(x_test, y_test)
        )

    def test_score_is_the_map_against_fitted_rows(self):
        x, x_test, y, y_test = _wine()
        hasher = _fitted()
        want = metrics.evaluate(
            hasher.transform(x_test), y_test, hasher.transform(x), y, 12
        )["map"]
        self.assertEqual(hasher.score(x_test, y_test), want)

    def test_label_that_was_not_fitted_finds_nothing(self):
        _, x_test, _, y_test = _wine()
        half = np.where(np.arange(len(y_test)) % 2, y_test, 7)
        known = np.arange(len(y_test)) % 2 == 1
        hasher = _fitted()
        self.assertAlmostEqual(
            hasher.score(x_test, half),
            hasher.score(x_test[known], y_test[known]) * known.mean(),
        )

    def test_strings_as_labels(self):
        x, x_test, y, y_test = _wine()
        names = np.array(["red", "blue", "white"])
        # In the order of the alphabet, which `unique` makes.
        order = np.sort(names)
        hasher = _small().fit(x, order[y])
        self.assert_equal(hasher.classes_, order)
        self.assert_equal(hasher.transform(x_test), _fitted().transform(x_test))
        self.assertEqual(
            hasher.score(x_test, order[y_test]),
            _fitted().score(x_test, y_test),
        )

    def test_multi_hot_labels(self):
        x, x_test, y, y_test = _wine()
        hasher = _small().fit(x, np.eye(3)[y])
        self.assert_equal(hasher.classes_, np.arange(3))
        self.assert_equal(hasher.transform(x_test), _fitted().transform(x_test))
        self.assertAlmostEqual(
            hasher.score(x_test, np.eye(3)[y_test]),
            _fitted().score(x_test, y_test),
        )

    def test_names_of_columns(self):
        pd = pytest.importorskip("pandas")
        x, _, y, _ = _wine()
        table = pd.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])])
        hasher = _small(epochs=2).set_output(transform="pandas")
        codes = hasher.fit(table, y).transform(table)
        names = ["hashtransformer0", "hashtransformer1"]
        self.assertEqual(list(codes.columns), names)
        self.assertEqual(hasher.n_features_in_, 13)
        self.assertEqual(hasher.feature_names_in_[3], "c3")

    def test_pipeline_and_grid_search(self):
        x, x_test, y, y_test = _wine()
        pipeline = make_pipeline(StandardScaler(), _small(epochs=5))
        search = GridSearchCV(
            pipeline, {"hashtransformer__bits": [1, 16]}, cv=2
        )
        search.fit(x, y)
        self.assertEqual(search.best_params_, {"hashtransformer__bits": 16})
        self.assertGreater(search.score(x_test, y_test), 0.6)

    def test_codes_as_features(self):
        x, x_test, y, y_test = _wine()
        pipeline = make_pipeline(
            _small(packed=False), KNeighborsClassifier(metric="hamming")
        )
        pipeline.fit(x, y)
        self.assertGreater(pipeline.score(x_test, y_test), 0.8)

    def test_clone_is_not_fitted(self):
        hasher = _small(solver={"margin": 0.3})
        again = sklearn.base.clone(hasher)
        self.assertEqual(again.get_params(), hasher.get_params())
        self.assertFalse(hasattr(again, "model_"))

    @parameterized.parameters(pickle, joblib)
    def test_pickle(self, library):
        x_test, y_test = _wine()[1::2]
        file = io.BytesIO()
        library.dump(_fitted(), file)
        # The network is a .keras file, which is a zip archive; of the
        # library, the estimator alone is named.
        self.assertIn(b"PK\x03\x04", file.getvalue())
        self.assertNotIn(b"vdsh_tf.model", file.getvalue().split(b"PK")[0])
        file.seek(0)
        again = library.load(file)
        self.assert_equal(again.transform(x_test), _fitted().transform(x_test))
        self.assertEqual(
            again.score(x_test, y_test), _fitted().score(x_test, y_test)
        )

    def test_pickle_before_fit(self):
        again = pickle.loads(pickle.dumps(_small()))
        self.assertEqual(again.get_params(), _small().get_params())

    def test_random_state(self):
        x, x_test, y, _ = _wine()

        def codes(state):
            hasher = _small(epochs=2, random_state=state).fit(x, y)
            return hasher.transform(x_test)

        self.assert_equal(codes(1), codes(1))
        self.assertTrue((codes(1) != codes(2)).any())
        first, second = (codes(np.random.RandomState(5)) for _ in range(2))
        self.assert_equal(first, second)

    def test_sample_weights_count(self):
        x, x_test, y, _ = _wine()
        plain = _small(epochs=2).fit(x, y)
        ones = _small(epochs=2).fit(x, y, sample_weight=np.ones(len(x)))
        others = _small(epochs=2).fit(x, y, sample_weight=1.0 + 9 * (y == 1))
        embed = [
            model.model_.predict(x_test, verbose=0)
            for model in (plain, ones, others)
        ]
        self.assert_close(embed[0], embed[1], atol=0.02)
        self.assertGreater(np.abs(embed[0] - embed[2]).max(), 0.05)

    @parameterized.parameters(
        # 16 rows make a batch, and 8 batches an epoch.
        (133, None, 188),
        (133, 133, 1500),
        (1347, None, 36),
        (60_000, None, 10),
    )
    def test_epochs_by_the_number_of_rows(self, rows, batch_size, epochs):
        hasher = HashTransformer(batch_size=batch_size)
        self.assertEqual(hasher._epochs(rows), epochs)

    def test_bad_parameters_name_the_value(self):
        x, _, y, _ = _wine()
        with self.assertRaisesRegex(ValueError, "`bits` must.*bits=0"):
            _small(bits=0).fit(x, y)
        with self.assertRaisesRegex(ValueError, "`normalization` must.*no"):
            _small(normalization="no").fit(x, y)

    @parameterized.parameters(
        (lambda y: np.zeros_like(y), "two classes"),
        (lambda y: y + 0.5, "continuous"),
        (lambda y: np.eye(3)[y] + 1, "0 or 1"),
    )
    def test_bad_labels(self, change, message):
        x, _, y, _ = _wine()
        with self.assertRaisesRegex(ValueError, message):
            _small().fit(x, change(y))

    def test_exported_by_the_package(self):
        self.assertIn("HashTransformer", vdsh_tf.__all__)


if __name__ == "__main__":
    absltest.main()
