"""Depth growth, its learning rate, evaluation and TensorBoard logs."""

import glob
import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf import GrowDepth
from vdsh_tf import LayerConvergence
from vdsh_tf import RetrievalEvaluation
from vdsh_tf import Stage
from vdsh_tf.data import datasets


def _data(num=64):
    rng = np.random.default_rng(0)
    y = np.arange(num) % 3
    x = np.eye(3, 8)[y] + 0.3 * rng.random((num, 8))
    return x.astype("f4"), y


def _model(**kwargs):
    model = VDSH(layers=6, width=8, bits=8, num_classes=3, **kwargs)
    model.compile()
    return model


class Spy(keras.callbacks.Callback):
    def __init__(self, x):
        super().__init__()
        self.x = x
        self.embeddings, self.rates, self.depths, self.steps = [], [], [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.embeddings.append(self.model.predict(self.x, verbose=0))
        self.depths.append(self.model.encoder.depth)
        self.steps.append(int(self.model.optimizer.iterations))

    def on_train_batch_begin(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))


class GrowDepthTest(case.TestCase):
    def _fit(self, stages, **kwargs):
        x, y = _data()
        before, after = Spy(x), Spy(x)
        grow = GrowDepth(stages, warmup=0.25)
        model = _model(grow_from=stages[0].layers, **kwargs)
        model.fit(
            x,
            y,
            batch_size=16,
            epochs=grow.epochs,
            verbose=0,
            callbacks=[before, grow, after],
        )
        return model, before, after

    def test_waking_layers_changes_no_output_and_restarts_the_optimizer(self):
        stages = [Stage(2, 2, 1e-2), Stage(4, 1, 1e-3), Stage(6, 2, 1e-3)]
        model, before, after = self._fit(stages)
        self.assertEqual(after.depths, [2, 2, 4, 6, 6])
        # 4 batches an epoch; the count starts anew with each stage.
        self.assertEqual(after.steps, [0, 4, 0, 0, 4])
        for first, second in zip(
            before.embeddings, after.embeddings, strict=True
        ):
            self.assertEqual(first.tobytes(), second.tobytes())
        kernels = [k.numpy() for k in model.encoder.kernels]
        for kernel in kernels[1:5]:
            self.assertGreater(np.abs(kernel - np.eye(8)).max(), 1e-5)

    def test_frozen_layers_are_not_touched(self):
        model, _, _ = self._fit([Stage(3, 1, 1e-2), Stage(6, 1, 1e-30)])
        for kernel in model.encoder.kernels[2:5]:
            self.assert_close(kernel.numpy(), np.eye(8), atol=1e-20)

    def test_learning_rate_warms_up_and_decays(self):
        _, _, after = self._fit([Stage(2, 2, 1e-2), Stage(6, 1, 1e-3)])
        rates = after.rates
        self.assertLen(rates, 12)
        self.assertAlmostEqual(rates[0], 1e-2 * (1 / 8) / 0.25, places=6)
        self.assertAlmostEqual(max(rates), 1e-2, places=6)
        self.assertAlmostEqual(rates[7], 1e-4, places=6)
        self.assertAlmostEqual(rates[8], 1e-3, places=6)

    def test_growth_still_learns(self):
        model, _, _ = self._fit([Stage(3, 15, 1e-2), Stage(6, 15, 3e-3)])
        _, accuracy = model.evaluate(*_data(), verbose=0)
        self.assertGreater(accuracy, 0.95)

    @parameterized.parameters(([],), ([Stage(4, 1, 1e-3), Stage(2, 1, 1e-3)],))
    def test_bad_stages(self, stages):
        with self.assertRaisesRegex(ValueError, "rising depth"):
            GrowDepth(stages)

    def test_stages_of_another_type(self):
        with self.assertRaisesRegex(ValueError, "of `vdsh_tf.recipes.Stage`s"):
            GrowDepth([(2, 3, 1e-3)])

    def test_last_stage_must_reach_the_full_depth(self):
        with self.assertRaisesRegex(ValueError, "layers=4.*6 layers"):
            self._fit([Stage(2, 1, 1e-3), Stage(4, 1, 1e-3)])

    def test_model_must_be_built_to_grow(self):
        x, y = _data()
        with self.assertRaisesRegex(ValueError, "grow_from=2"):
            _model().fit(
                x,
                y,
                verbose=0,
                epochs=2,
                callbacks=[GrowDepth([Stage(2, 1, 1e-3), Stage(6, 1, 1e-3)])],
            )

    @parameterized.parameters(
        (0, 1, 1e-3), (2, 0, 1e-3), (2, 1, 0.0), (2, 1, float("nan"))
    )
    def test_bad_stage(self, layers, epochs, rate):
        with self.assertRaisesRegex(ValueError, "must be"):
            Stage(layers, epochs, rate)


class LoggingTest(case.TestCase):
    def test_retrieval_evaluation_adds_to_the_logs(self):
        x, y = _data()
        part = datasets.Part(x, y)
        history = (
            _model()
            .fit(
                x,
                y,
                epochs=3,
                verbose=0,
                callbacks=[RetrievalEvaluation(part, part, every=2)],
            )
            .history
        )
        self.assertLen(history["val_map"], 2)
        self.assertBetween(history["val_map"][-1], 0.3, 1.0)

    def test_every_active_layer_is_written_to_tensorboard(self):
        x, y = _data()
        with tempfile.TemporaryDirectory() as folder:
            convergence = LayerConvergence(folder)
            stages = [Stage(3, 1, 1e-3), Stage(6, 1, 1e-3)]
            _model(grow_from=3).fit(
                x,
                y,
                epochs=2,
                verbose=0,
                callbacks=[GrowDepth(stages), convergence],
            )
            tags = {}
            for path in glob.glob(os.path.join(folder, "events*")):
                for event in tf.compat.v1.train.summary_iterator(path):
                    for value in event.summary.value:
                        number = tf.make_ndarray(value.tensor)
                        tags[value.tag, event.step] = float(number)
        for m in (1, 2, 6):
            self.assertGreater(tags[f"residual/layer_{m:02d}", 0], 0)
        for m in range(1, 7):
            self.assertGreater(tags[f"dual/layer_{m:02d}", 1], 0)
        self.assertNotIn(("dual/layer_04", 0), tags)
        self.assertIn(("epoch/objective", 1), tags)
        self.assert_equal(convergence.dual[0][2:5], [0, 0, 0])
        self.assertTrue((convergence.dual[1] > 0).all())


if __name__ == "__main__":
    absltest.main()
