"""Centred inputs: the mean goes with the model wherever it is used."""

import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest

from tests.support import case
from vdsh_tf import codes
from vdsh_tf.data import datasets
from vdsh_tf.export import graph
from vdsh_tf.export import metadata
from vdsh_tf.export import parity
from vdsh_tf.model import VDSH
from vdsh_tf.search.hasher import Hasher


def _data(num=96, dim=12):
    """Rows that share a mean far larger than what tells them apart."""
    rng = np.random.default_rng(0)
    y = np.arange(num) % 3
    x = 50 + rng.normal(size=(3, dim))[y] + 0.1 * rng.normal(size=(num, dim))
    return x.astype(np.float32), y


def _model(**kwargs):
    model = VDSH(
        layers=3, width=16, bits=16, num_classes=3, center=True, **kwargs
    )
    model.compile()
    return model


class CenteringTest(case.TestCase):
    def test_rows_are_centred_then_scaled(self):
        x, y = _data()
        model = _model()
        model.fit(x, y, verbose=0)
        want = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
        want /= np.linalg.norm(want, axis=1, keepdims=True)
        self.assert_close(model.encoder.normalize(x), want, atol=1e-4)

    def test_learns_what_the_mean_hides(self):
        x, y = _data()
        accuracy = []
        for center in (True, False):
            model = VDSH(3, 16, 16, 3, center=center)
            model.compile()
            history = model.fit(x, y, epochs=15, verbose=0).history
            accuracy.append(history["accuracy"][-1])
        self.assertGreater(accuracy[0], 0.95)
        self.assertGreater(accuracy[0], accuracy[1] + 0.1)

    def test_full_schedule_centres_too(self):
        x, y = _data()
        model = _model(schedule="full")
        model.build(x.shape)
        model.encoder.set_center(x)
        model.prepare(x, y)
        z = model.store.read(tf.range(len(x))).z
        centred = model.encoder.normalize(x)
        want = tf.nn.relu(tf.matmul(centred, model.encoder.kernels[0]))
        self.assert_close(z[0], want, atol=1e-6)
        model.fit(x, y, verbose=0)
        self.assertTrue(model.encoder.center_is_set)

    def test_mean_survives_saving_and_tells_encoders_apart(self):
        x, y = _data()
        model = _model()
        model.fit(x, y, verbose=0)
        path = os.path.join(tempfile.mkdtemp(), "m.keras")
        model.save(path)
        again = keras.saving.load_model(path)
        self.assert_equal(again.encode(x), model.encode(x))
        before = model.encoder.fingerprint()
        self.assertEqual(again.encoder.fingerprint(), before)
        model.encoder.set_center(x[:5])
        self.assertNotEqual(model.encoder.fingerprint(), before)

    def test_every_way_to_a_code_agrees(self):
        x, y = _data()
        model = _model()
        model.fit(x, y, verbose=0)
        kernels, mean = graph.kernels_of(model), graph.mean_of(model)
        want = parity.responses(kernels, x, mean)
        sure = np.abs(want) > 1e-5
        described = metadata.describe(model, "npz")
        self.assertEqual(described.normalization, "center_unit_length")
        served = graph.Served(kernels, described, mean)
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

    def test_dataset_needs_the_mean_first(self):
        x, y = _data()
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
        model = _model()
        with self.assertRaisesRegex(ValueError, "set_center"):
            model.fit(data, verbose=0)
        model.encoder.set_center(x)
        model.fit(data, verbose=0)

    def test_uncentred_encoder_takes_no_mean(self):
        model = VDSH(3, 16, 16, 3)
        model.build((None, 12))
        with self.assertRaisesRegex(ValueError, "center=True"):
            model.encoder.set_center(np.zeros(12))


class PerturbTest(case.TestCase):
    def test_dropout_takes_the_stated_share(self):
        rows = datasets.perturb(tf.ones([200, 500]), 0.0, 0.3, (1, 2)).numpy()
        self.assertAlmostEqual(np.mean(rows == 0), 0.3, delta=0.01)
        self.assertEqual(set(np.unique(rows)), {0.0, 1.0})

    def test_noise_is_a_share_of_the_row(self):
        rows = np.ones((100, 400), np.float32) * np.arange(1, 101)[:, None]
        rows = rows.astype(np.float32)
        got = datasets.perturb(tf.constant(rows), 0.5, 0.0, (1, 2)).numpy()
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
