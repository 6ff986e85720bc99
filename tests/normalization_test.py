"""Normalised inputs: what was learned goes with the model everywhere."""

import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import codes
from vdsh_tf.callbacks.watch import CollapsedError
from vdsh_tf.data import batches
from vdsh_tf.data import datasets
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.export import graph
from vdsh_tf.export import metadata
from vdsh_tf.export import parity
from vdsh_tf.model import VDSH
from vdsh_tf.network import embed
from vdsh_tf.search.hasher import Hasher

LEARNED = ("auto", "center", "standardize")
UNITS = 10.0 ** np.arange(-5, 7)


def _data(num=96, dim=12):
    """Rows that share a mean far larger than what tells them apart."""
    rng = np.random.default_rng(0)
    y = np.arange(num) % 3
    x = 50 + rng.normal(size=(3, dim))[y] + 0.1 * rng.normal(size=(num, dim))
    return x.astype(np.float32), y


def _table(num=96):
    """The same in columns of different units."""
    x, y = _data(num)
    return (x * UNITS).astype(np.float32), y


def _noise():
    return np.random.default_rng(0).normal(size=(96, 12)).astype(np.float32)


def _model(normalization="center", **kwargs):
    model = VDSH(3, 16, 16, 3, normalization=normalization, **kwargs)
    model.compile(recipe=None)
    return model


def _accuracy(kind, x, y):
    # Columns that tell nothing are not kept either.
    model = _model(kind, solver={"goal": "class"})
    try:
        history = model.fit(x, y, epochs=15, verbose=0).history
    except CollapsedError:
        return 0.0
    return history["accuracy"][-1]


def _encoder(normalization, x=None, **kwargs):
    encoder = HashEncoder(3, 16, 16, normalization=normalization, **kwargs)
    encoder.build((None, 12))
    if x is not None:
        encoder.adapt(x)
    return encoder


def _unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class AdaptTest(case.TestCase):
    def test_kinds(self):
        x = _table()[0].astype(np.float64)
        centred = x - x.mean(axis=0)
        for kind, want in (
            ("unit", _unit(x)),
            ("center", _unit(centred)),
            ("standardize", _unit(centred / centred.std(axis=0))),
        ):
            encoder = _encoder(kind, x)
            self.assertEqual(encoder.normalization_kind, kind)
            self.assert_close(encoder.normalize(x), want, atol=0.03, msg=kind)

    @parameterized.parameters(
        (_table, "standardize"),
        (lambda: (_noise() + 50, None), "center"),
        (lambda: (_noise(), None), "unit"),
    )
    def test_auto_looks_at_the_data(self, data, want):
        x = data()[0]
        encoder = _encoder("auto", x)
        self.assertEqual(encoder.normalization_kind, want)
        fixed = _encoder(want, x)
        self.assert_equal(encoder.normalize(x), fixed.normalize(x))
        self.assertEqual(encoder.fingerprint(), fixed.fingerprint())

    @parameterized.parameters(*LEARNED)
    def test_streams_are_as_good_as_arrays(self, kind):
        x, y = _table()
        slices = tf.data.Dataset.from_tensor_slices
        want = _encoder(kind, x).fingerprint()
        for data in (slices(x).batch(7), slices((x, y)).batch(32)):
            self.assertEqual(_encoder(kind, data).fingerprint(), want)

    @parameterized.parameters(*LEARNED)
    def test_before_data_is_seen_rows_get_unit_length(self, kind):
        x = _table()[0]
        encoder = HashEncoder(3, 16, 16, normalization=kind)
        self.assertFalse(encoder.adapted)
        encoder.build((None, 12))
        self.assertFalse(encoder.adapted)
        self.assertEqual(encoder.normalization_kind, "unit")
        self.assertEqual(encoder.normalization_arrays(), (None, None))
        plain = _encoder("unit")
        self.assert_equal(encoder(x), plain(x))
        self.assertEqual(encoder.fingerprint(), plain.fingerprint())
        traced = tf.function(encoder.normalize)
        self.assert_equal(traced(x), plain.normalize(x))
        encoder.adapt(x)
        self.assertTrue(encoder.adapted)
        # The graph reads variables: nothing is traced anew.
        self.assert_close(traced(x), encoder.normalize(x), atol=1e-7)

    def test_unit_needs_no_data(self):
        encoder = HashEncoder(3, 16, 16, normalization="unit")
        self.assertTrue(encoder.adapted)
        encoder.adapt(_table()[0])
        self.assertFalse(encoder.built)

    def test_builds_what_is_not_built(self):
        encoder = HashEncoder(3, 16, 16)
        encoder.adapt(_table()[0])
        self.assertEqual(encoder.kernels[0].shape, (12, 16))
        self.assertTrue(encoder.adapted)

    def test_other_width(self):
        with self.assertRaisesRegex(ValueError, "12 wide"):
            _encoder("auto", np.ones((5, 11)))

    def test_unknown_kind(self):
        with self.assertRaisesRegex(ValueError, "auto, unit.*'whiten'"):
            HashEncoder(normalization="whiten")

    def test_statistics_are_not_trained(self):
        encoder = _encoder("auto", _table()[0])
        self.assertLen(encoder.trainable_variables, 3)
        names = [v.name for v in encoder.non_trainable_variables]
        self.assertEqual(names, ["mean", "scale"])

    def test_half_precision_keeps_what_a_large_mean_hides(self):
        x = _data()[0]
        want = _encoder("center", x).normalize(x)
        half = _encoder("center", x, dtype="mixed_bfloat16")
        got = half.normalize(x)
        self.assertEqual(got.dtype, tf.bfloat16)
        self.assert_close(tf.cast(got, tf.float32), want, atol=0.01)
        self.assertEqual(half(x).dtype, tf.bfloat16)

    @parameterized.parameters(*LEARNED)
    def test_constant_columns_and_outliers_do_no_harm(self, kind):
        x = _table()[0]
        x[:, 3] = 7
        x[5, 8] = 3e38
        encoder = _encoder(kind, x)
        rows = encoder.normalize(x).numpy()
        self.assertTrue(np.isfinite(rows).all())
        self.assert_close(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
        if kind == "standardize":
            self.assert_equal(rows[:, 3], 0 * rows[:, 3])
            others = np.delete(rows, 5, axis=0)
            self.assertGreater(np.abs(others).mean(axis=0)[4], 0.05)
            changed = x.copy()
            changed[:, 3] = 1e6
            self.assert_equal(encoder.normalize(changed), rows)


class ConfigTest(case.TestCase):
    @parameterized.parameters(
        ("unit", []),
        ("center", ["mean"]),
        ("standardize", ["mean", "scale"]),
        ("auto", ["mean", "scale"]),
    )
    def test_round_trip(self, kind, names):
        encoder = _encoder(kind, _table()[0])
        again = HashEncoder.from_config(encoder.get_config())
        self.assertEqual(again.normalization, kind)
        again.build((None, 12))
        found = [v.name for v in again.non_trainable_variables]
        self.assertEqual(found, names)
        again.set_weights(encoder.get_weights())
        self.assertEqual(again.fingerprint(), encoder.fingerprint())
        self.assertEqual(again.adapted, encoder.adapted)

    @parameterized.parameters((True, "center"), (False, "unit"))
    def test_version_0_1_0(self, center, want):
        config = {
            "layers": 3,
            "width": 16,
            "bits": 16,
            "initializer": "looks_linear",
            "grow_from": None,
            "seed": 0,
            "center": center,
        }
        encoder = HashEncoder.from_config(config)
        self.assertEqual(encoder.normalization, want)
        encoder.build((None, 12))
        self.assertLen(encoder.weights, 3 + center)

    def test_fingerprints_of_version_0_1_0_stay(self):
        # Of kernels, and of a mean, as that version wrote them.
        x = np.arange(24, dtype=np.float32).reshape(2, 12) % 5 + 1
        want = {
            "unit": "47bc779a8dac24578d53578874300f8c",
            "center": "eb90fea66513790cc2ddc2d4872c25bc",
        }
        for kind, fingerprint in want.items():
            encoder = _encoder(kind)
            for m, kernel in enumerate(encoder.kernels):
                values = np.arange(np.prod(kernel.shape), dtype=np.float32)
                kernel.assign(values.reshape(kernel.shape) % 7 - m)
            if kind == "center":
                encoder.set_center(x)
            self.assertEqual(encoder.fingerprint(), fingerprint, kind)


class CenteringTest(case.TestCase):
    def test_rows_are_centred_then_scaled(self):
        x, y = _data()
        model = _model()
        model.encoder.build(x.shape)
        model.encoder.set_center(x)
        model.fit(x, y, verbose=0)
        want = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
        self.assert_close(model.encoder.normalize(x), _unit(want), atol=1e-4)

    def test_learns_what_the_mean_hides(self):
        x, y = _data()
        centred, auto, unit = (
            _accuracy(kind, x, y) for kind in ("center", "auto", "unit")
        )
        self.assertGreater(min(centred, auto), 0.95)
        self.assertGreater(centred, unit + 0.1)

    def test_learns_what_large_units_hide(self):
        x, y = _table()
        # The largest column tells nothing.
        x[:, -1] = np.random.default_rng(1).permutation(x[:, -1])
        scaled, auto, centred = (
            _accuracy(kind, x, y) for kind in ("standardize", "auto", "center")
        )
        self.assertGreater(min(scaled, auto), 0.95)
        self.assertGreater(scaled, centred + 0.1)

    @parameterized.parameters(*LEARNED)
    def test_full_schedule_normalises_too(self, kind):
        x, y = _table()
        model = _model(kind, schedule="full")
        model.fit(x, y, epochs=1, verbose=0)
        self.assertTrue(model.encoder.adapted)
        rows = model.encoder.normalize(x)
        want = embed(rows, model.encoder.kernels)
        self.assert_close(model.predict(x, verbose=0), want, atol=1e-5)

    @parameterized.parameters(*LEARNED)
    def test_survives_saving_and_tells_encoders_apart(self, kind):
        x, y = _table()
        model = _model(kind)
        model.fit(x, y, verbose=0)
        path = os.path.join(tempfile.mkdtemp(), "m.keras")
        model.save(path)
        again = keras.saving.load_model(path)
        self.assert_equal(again.encode(x), model.encode(x))
        before = model.encoder.fingerprint()
        self.assertEqual(again.encoder.fingerprint(), before)
        self.assertEqual(
            again.encoder.normalization_kind, model.encoder.normalization_kind
        )
        model.encoder.mean.assign(model.encoder.mean + 1)
        self.assertNotEqual(model.encoder.fingerprint(), before)
        if kind != "center":
            again.encoder.scale.assign(again.encoder.scale / 2)
            self.assertNotEqual(again.encoder.fingerprint(), before)

    @parameterized.parameters(
        ("center", "center"),
        ("standardize", "standardize"),
        ("auto", "standardize"),
    )
    def test_every_way_to_a_code_agrees(self, kind, resolved):
        x, y = _table()
        model = _model(kind)
        model.fit(x, y, verbose=0)
        kernels = graph.kernels_of(model)
        mean, scale = graph.normalization_of(model)
        want = parity.responses(kernels, x, mean, scale)
        sure = np.abs(want) > 1e-5
        described = metadata.describe(model, "npz")
        self.assertEqual(described.normalization, f"{resolved}_unit_length")
        served = graph.Served(kernels, described, mean, scale)
        hasher = Hasher(model.encoder)
        one = np.concatenate([hasher(row[None]) for row in x])
        for got in (
            model.encode(x),
            hasher(x),
            one,
            served.rows(x)["codes"].numpy(),
        ):
            bits = codes.unpack(got, 16)
            self.assert_equal(bits[sure], (want > 0)[sure])
        without = parity.responses(kernels, x)
        self.assertFalse(np.array_equal(without > 0, want > 0))

    @parameterized.parameters(*LEARNED)
    def test_dataset_is_looked_at_first(self, kind):
        x, y = _table()
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
        model = _model(kind)
        model.fit(data, verbose=0)
        want = _encoder(kind, x).normalization_arrays()
        got = model.encoder.normalization_arrays()
        for g, w in zip(got, want, strict=True):
            self.assert_equal(g, w)

    def test_only_a_centred_encoder_is_given_a_mean(self):
        for kind in ("unit", "auto", "standardize"):
            with self.assertRaisesRegex(ValueError, 'normalization="center"'):
                _encoder(kind).set_center(np.zeros(12))
        encoder = _encoder("center")
        self.assertFalse(encoder.center_is_set)
        encoder.set_center(np.ones(12))
        self.assertTrue(encoder.center_is_set)


class PerturbTest(case.TestCase):
    def test_dropout_takes_the_stated_share(self):
        rows = batches.perturb(tf.ones([200, 500]), 0.0, 0.3, (1, 2)).numpy()
        self.assertAlmostEqual(np.mean(rows == 0), 0.3, delta=0.01)
        self.assertEqual(set(np.unique(rows)), {0.0, 1.0})

    def test_noise_is_a_share_of_the_row(self):
        rows = np.ones((100, 400), np.float32) * np.arange(1, 101)[:, None]
        rows = rows.astype(np.float32)
        got = batches.perturb(tf.constant(rows), 0.5, 0.0, (1, 2)).numpy()
        share = np.linalg.norm(got - rows, axis=1) / np.linalg.norm(
            rows, axis=1
        )
        self.assertAlmostEqual(share.mean(), 0.5, delta=0.01)
        self.assertLess(share.std(), 0.05)

    def test_centred_batches_drop_towards_the_mean(self):
        split = datasets.load("digits")
        batches, _ = split.train_batches(64, dropout=0.5, center=True)
        x = next(batches.as_numpy_iterator())[0]
        at_mean = np.isclose(x, split.train_mean(), atol=1e-4).mean()
        self.assertGreater(at_mean, 0.45)


if __name__ == "__main__":
    absltest.main()
