"""Every way into a model: the same checks, in the library's own sentences."""

import os
import subprocess
import sys
import tempfile

import keras
import numpy as np
import pandas as pd
import scipy.sparse
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf import GrowDepth
from vdsh_tf import Hasher
from vdsh_tf import Solver
from vdsh_tf import Stage
from vdsh_tf.training import runs

RNG = np.random.default_rng(0)
Y = np.arange(120) % 3
X = (RNG.normal(size=(120, 6)) + np.eye(3).repeat(2, axis=1)[Y]).astype("f4")


def model(**settings):
    made = VDSH(
        **{"layers": 2, "width": 8, "bits": 8, "num_classes": 3, **settings}
    )
    made.compile()
    return made


def built(made):
    made.build((None, 6))
    return made


def dataset(x, y):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(30)


# Rows as `predict` takes them.
def batched(x):
    return tf.data.Dataset.from_tensor_slices(x).batch(30)


def pairs(x):
    return dataset(x, Y)


def generated(x):
    return ((x[i : i + 30],) for i in range(0, len(x), 30))


def numbered(x):
    class Numbered(keras.utils.PyDataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return x[30 * i : 30 * i + 30], Y[30 * i : 30 * i + 30]

    return Numbered()


class EntriesTest(case.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fitted = model()
        cls.fitted.fit(X, Y, verbose=0)
        cls.codes = cls.fitted.encode(X)
        cls.plain = model(normalization="unit")
        cls.plain.fit(X, Y, verbose=0)

    def assert_refused(self, message, call, *args, **kwargs):
        with self.assertRaisesRegex(ValueError, message):
            call(*args, **kwargs)

    @parameterized.parameters(1e300, 1e38, 1e-38, 1e-39, 1e-300)
    def test_float64_beyond_float32(self, factor):
        """A factor on a row is no news to an encoder without a mean."""
        x = X.astype(float) * factor
        want = self.plain.encode(X)
        self.assert_equal(self.plain.encode(x), want)
        hasher = Hasher(self.plain.encoder)
        self.assert_equal(hasher(x), want)
        self.assert_equal(hasher(x[:2]), want[:2])

    def test_trains_on_float64_beyond_float32(self):
        again = model(normalization="unit")
        again.fit(X.astype(float) * 2.0**900, Y, verbose=0)
        self.assert_equal(again.encode(X), self.plain.encode(X))

    @parameterized.parameters((1e300, "at most"), (1e-300, "smaller than"))
    def test_beyond_float32_with_a_mean(self, factor, message):
        centred = model(normalization="center")
        centred.fit(X, Y, verbose=0)
        x = X.astype(float) * factor
        for call in (centred.encode, centred.predict, Hasher(centred.encoder)):
            self.assert_refused(message, call, x)
        self.assert_refused(message, model().fit, x, Y)
        self.assert_refused(message, model().fit, dataset(x, Y), verbose=0)

    @parameterized.parameters(1e30, 1e-30)
    def test_noise_on_rows_far_from_one(self, factor):
        made = model(normalization="center")
        made.fit(X * np.float32(factor), Y, epochs=2, verbose=0)
        made.encoder.check_finite()
        self.assertGreater(len(np.unique(made.encode(X * factor), axis=0)), 1)

    def test_labels_outside_the_classes(self):
        outside = Y + 50
        for data in ((X, outside), dataset(X, outside)):
            self.assert_refused(
                "from 0 to 2", model().fit, X, Y, validation_data=data
            )
        self.assert_refused("from 0 to 2", self.fitted.evaluate, X, outside)
        self.assert_refused(
            "from 0 to 2", self.fitted.evaluate, dataset(X, outside)
        )
        self.assert_refused("from 0 to 2", self.fitted.test_on_batch, X, -Y)

    def test_evaluate_takes_a_single_class(self):
        got = self.fitted.evaluate(X[Y == 1], Y[Y == 1], verbose=0)
        self.assertTrue(np.isfinite(got).all())

    def test_arguments_in_the_order_of_keras(self):
        named = self.fitted.evaluate(X, Y, batch_size=30, verbose=0)
        self.assertEqual(self.fitted.evaluate(X, Y, 30, 0), named)
        self.assertEqual(self.fitted.evaluate(X, Y, 30, 0, np.ones(120)), named)
        self.assert_equal(
            self.fitted.predict(X, 30, 0), self.fitted.predict(X, verbose=0)
        )

    def test_full_schedule_stops_when_it_diverges(self):
        full = model(schedule="full", normalization="unit")
        full.fit(X, Y, verbose=0)
        good = full.encoder.get_weights()
        full.classifier.assign(full.classifier * np.inf)
        with self.assertRaisesRegex(RuntimeError, "objective is nan"):
            full.fit(X, Y, verbose=0)
        for old, new in zip(good, full.encoder.get_weights(), strict=True):
            self.assert_equal(new, old)

    def test_bad_batch_leaves_the_weights(self):
        x = X[:30].copy()
        x[3, 2] = np.nan
        before = self.fitted.get_weights()
        self.assert_refused("row 3", self.fitted.train_on_batch, x, Y[:30])
        for old, new in zip(before, self.fitted.get_weights(), strict=True):
            self.assert_equal(old, new)

    @parameterized.parameters(1.7, 0.5, -1.0)
    def test_multi_hot_batches(self, value):
        y = np.eye(3, dtype="f4")[Y] * np.float32(value)
        self.assert_refused(
            "must be 0 or 1", model().fit, dataset(X, y), verbose=0
        )

    def test_too_few_epochs_for_the_stages(self):
        deep = model(layers=4, grow_from=2)
        growth = GrowDepth([Stage(2, 3, 1e-3), Stage(4, 2, 1e-4)])
        with self.assertWarnsRegex(UserWarning, "2 of 4 layers.*epochs=5"):
            deep.fit(X, Y, epochs=2, callbacks=[growth], verbose=0)

    def test_full_schedule_starts_anew_for_other_rows(self):
        rest = slice(60, None)
        full, other = model(schedule="full"), model(schedule="full")
        full.fit(X[:60], Y[:60], epochs=2, verbose=0)
        store = full.store
        full.fit(X[:60], Y[:60], epochs=1, verbose=0)
        self.assertIs(full.store, store)
        built(other).set_weights(full.get_weights())
        for made in (full, other):
            made.fit(X[rest], Y[rest], epochs=1, verbose=0)
        self.assertIsNot(full.store, store)
        np.testing.assert_allclose(
            full.get_weights()[0], other.get_weights()[0]
        )

    def test_full_schedule_needs_an_end(self):
        endless = dataset(X, Y).repeat()
        # TensorFlow cannot know that this one keeps all.
        hidden = endless.filter(lambda x, y: tf.size(y) > 0)
        fit = model(schedule="full").fit
        self.assert_refused("without end", fit, endless, verbose=0)
        self.assert_refused("of unknown length", fit, hidden, verbose=0)
        generator = ((X, Y) for _ in iter(int, 1))
        self.assert_refused("of unknown length", fit, generator, verbose=0)
        length = tf.data.experimental.assert_cardinality(4)
        fit(hidden.take(4).apply(length), verbose=0)

    @parameterized.parameters(np.nan, np.inf, 0)
    def test_predict_checks_batches(self, value):
        bad = X.copy()
        bad[100] = value
        for make in (batched, pairs, generated, numbered):
            # Of Python code, TensorFlow leaves the sentence, not the type.
            with self.assertRaisesRegex(
                (ValueError, RuntimeError), "Features must"
            ):
                self.fitted.predict(make(bad), verbose=0)
            np.testing.assert_allclose(
                self.fitted.predict(make(X), verbose=0),
                self.fitted.predict(X, verbose=0),
                atol=1e-6,
            )

    def test_predict_checks_what_batches_are(self):
        for data, message in (
            (batched(X[:, 1:]), "must be 6 wide"),
            (generated(X[:, 1:]), "must be 6 wide"),
            (tf.data.Dataset.from_tensor_slices(X), "forget `.batch"),
            (batched(X.astype(str)), "must be numbers"),
            (batched(X).map(lambda x: {"x": x}), "rows of a known width"),
        ):
            self.assert_refused(message, self.fitted.predict, data, verbose=0)

    def test_masks(self):
        masked = np.ma.masked_greater(X, X.max() - 0.1)
        self.assert_refused("masked entry", self.fitted.encode, masked)
        labels = np.ma.masked_equal(Y, 2)
        self.assert_refused("masked entry in row 2", model().fit, X, labels)
        unmasked = np.ma.masked_greater(X, 1e9)
        self.assert_equal(self.fitted.encode(unmasked), self.codes)

    @parameterized.parameters(
        (scipy.sparse.csr_matrix, None),
        (pd.DataFrame, pd.Series),
        (np.ndarray.tolist, np.ndarray.tolist),
        (tf.constant, tf.constant),
        (None, lambda y: y[:, None]),
        (lambda x: x.astype(np.longdouble), lambda y: y.astype(">i2")),
        (np.asfortranarray, lambda y: pd.DataFrame({"label": y})),
    )
    def test_what_people_pass(self, make_x, make_y):
        x = make_x(X) if make_x else X
        y = make_y(Y) if make_y else Y
        made = model()
        made.fit(x, y, verbose=0)
        self.assert_equal(made.encode(x), self.codes)

    def test_columns_of_labels_in_batches(self):
        models = [model(), model()]
        for made, y in zip(models, (Y, Y[:, None]), strict=True):
            made.fit(dataset(X, y), verbose=0, validation_data=dataset(X, y))
        got, want = (made.history.history["val_map"] for made in models)
        self.assertEqual(got, want)

    def test_errors_of_the_users_own_code(self):
        def batches():
            yield X[:60], Y[:60]
            raise KeyError("the user's own")

        data = tf.data.Dataset.from_generator(
            batches,
            output_signature=(
                tf.TensorSpec([None, 6]),
                tf.TensorSpec([None], tf.int64),
            ),
        )
        with self.assertRaisesRegex(RuntimeError, "KeyError: .the user's own"):
            model().fit(data, verbose=0)


class HabitsTest(case.TestCase):
    def test_numbers_of_numpy(self):
        made = model(
            layers=np.int64(3),
            width=np.uint8(100),
            bits=np.uint8(200),
            num_classes=Y.max() + 1,
            grow_from=np.int16(2),
            seed=np.int64(3),
            solver=Solver(beta=np.float32(8), code_steps=np.int64(1)),
        )
        made.fit(X, Y, epochs=np.int64(1), batch_size=np.int64(30), verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.keras")
            made.save(path)
            loaded = runs.load_model(path)
        self.assert_equal(loaded.encode(X), made.encode(X))

    def test_seed_is_drawn_and_kept(self):
        one, other = model(seed=None), model(seed=None)
        self.assertNotEqual(one.encoder.seed, other.encoder.seed)
        again = VDSH.from_config(one.get_config())
        self.assertEqual(again.encoder.seed, one.encoder.seed)

    @parameterized.parameters(-1, 2**32, 1.5, "0", True)
    def test_bad_seeds(self, seed):
        with self.assertRaisesRegex(ValueError, "`seed` must be"):
            model(seed=seed)

    @parameterized.parameters(
        ("compiled", lambda m, _: VDSH(num_classes=3).fit(X, Y)),
        ("compiled", lambda m, _: VDSH(num_classes=3).train_on_batch(X, Y)),
        ("adapt", lambda m, _: m.train_on_batch(X, Y)),
        ("no weights", lambda m, _: m.evaluate(X, Y)),
        ("no weights", lambda m, _: m.predict(X)),
        ("Algorithm 1", lambda m, _: m.compile(loss="mse")),
        ("Algorithm 1", lambda m, _: m.compile(metrics=["accuracy"])),
        ("tools/export.py", lambda m, f: m.export(f)),
        ("--quantize=static", lambda m, _: built(m).quantize("int8")),
        (".keras", lambda m, f: m.save(os.path.join(f, "model.h5"))),
        (".keras", lambda m, f: m.encoder.save(f)),
    )
    def test_one_sentence(self, message, call):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(
                (ValueError, NotImplementedError), message
            ):
                call(model(), folder)
            self.assertEmpty(os.listdir(folder))

    def test_batches_before_fit(self):
        made = model()
        made.encoder.adapt(X)
        first = made.train_on_batch(X, Y, return_dict=True)
        for _ in range(20):
            last = made.train_on_batch(X, Y, return_dict=True)
        self.assertLess(last["loss"], first["loss"])

    def test_weights_that_are_not_finite(self):
        made = model()
        made.fit(X, Y, verbose=0)
        kernel = keras.ops.convert_to_numpy(made.encoder.kernels[0])
        kernel[0, 0] = np.nan
        made.encoder.kernels[0].assign(kernel)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.keras")
            made.save(path)
            for call in (
                lambda: made.encode(X),
                lambda: Hasher(made.encoder),
                lambda: runs.load_model(path),
            ):
                with self.assertRaisesRegex(ValueError, "must be finite"):
                    call()

    def test_other_backend(self):
        code = "from vdsh_tf import VDSH"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "KERAS_BACKEND": "numpy"},
            capture_output=True,
            text=True,
        )
        last = done.stderr.strip().splitlines()[-1]
        self.assertRegex(last, "^ImportError: .*KERAS_BACKEND=tensorflow")


if __name__ == "__main__":
    absltest.main()
