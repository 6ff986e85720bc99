"""`preserve` in a model: arrays, streams, files, unseen classes."""

import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf import Recipe
from vdsh_tf import Solver
from vdsh_tf.data import datasets
from vdsh_tf.training import trainer


def _model(preserve=0.15, recipe="auto", **settings):
    solver = Solver(preserve=preserve, preserve_rank=8)
    settings = {"layers": 4, "width": 64, "bits": 32, **settings}
    model = VDSH(**settings, solver=solver)
    model.compile(recipe=recipe)
    return model


def _kernels(model):
    return [np.asarray(kernel) for kernel in model.encoder.kernels]


class PreserveTest(case.TestCase):
    def test_accuracy_is_that_of_the_labels(self):
        split = datasets.load("digits")
        model = _model()
        history = model.fit(
            split.train.x,
            split.train.y,
            epochs=12,
            verbose=0,
            validation_data=(split.query.x, split.query.y),
        ).history
        self.assertEqual(model.classifier.shape, (32, 18))
        self.assertGreater(history["val_accuracy"][-1], 0.9)
        self.assertGreater(history["val_map"][-1], 0.9)

    def test_unseen_classes_find_each_other(self):
        found = {}
        for preserve in (0.0, 0.3):
            results = []
            for seed in range(2):
                split = datasets.load(
                    "digits", unseen_classes="7,8,9", seed=seed
                )
                model = _model(preserve, num_classes=7, seed=seed)
                model.fit(split.train.x, split.train.y, epochs=20, verbose=0)
                results.append(trainer.evaluate(model, split))
            found[preserve] = np.mean([r["map"] for r in results])
            trained = np.mean([r["trained"]["map"] for r in results])
            self.assertGreater(trained, 0.95)
        self.assertGreater(found[0.3], found[0.0] + 0.02)

    def test_streams_learn_the_same_projection(self):
        split = datasets.load("digits")
        x, y = split.train.x[:512], split.train.y[:512]
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)
        first, second = _model(recipe=None), _model(recipe=None)
        first.fit(x, y, batch_size=64, shuffle=False, verbose=0)
        second.fit(dataset, verbose=0)
        self.assertTrue(np.any(np.asarray(first.projection)))
        self.assert_close(first.projection, second.projection, atol=1e-5)
        for a, b in zip(_kernels(first), _kernels(second), strict=True):
            self.assert_close(a, b, atol=1e-4)

    def test_saved_model_goes_on_alike(self):
        split = datasets.load("digits")
        x, y = split.train.x[:300], split.train.y[:300]
        model = _model(recipe=Recipe(mixup=0.4))
        model.fit(x, y, epochs=2, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.keras")
            model.save(path)
            again = keras.saving.load_model(path)
        self.assert_equal(model.projection, again.projection)
        self.assertEqual(
            model.encoder.fingerprint(), again.encoder.fingerprint()
        )
        for m in (model, again):
            m.fit(x, y, epochs=1, verbose=0)
        for a, b in zip(_kernels(model), _kernels(again), strict=True):
            self.assertEqual(a.tobytes(), b.tobytes())

    def test_several_labels(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(400, 20)).astype("f4")
        y = (x[:, :4] > 0).astype("f4")
        model = _model(num_classes=4, recipe=Recipe(mixup=0.5))
        model.fit(x, y, epochs=3, verbose=0)
        self.assertEqual(model.classifier.shape, (32, 12))
        self.assertTrue(np.isfinite(model.evaluate(x, y, verbose=0)).all())


if __name__ == "__main__":
    absltest.main()
