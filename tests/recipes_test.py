"""The plan of `fit`: depth, rates, going on, collapse."""

import os
import tempfile
import warnings

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf import GrowDepth
from vdsh_tf import Recipe
from vdsh_tf import Stage
from vdsh_tf import recipes
from vdsh_tf.callbacks import CollapsedError
from vdsh_tf.callbacks import Watch
from vdsh_tf.data import batches
from vdsh_tf.recipes import Stages


def _data(num=240, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(classes, 12))
    y = rng.integers(classes, size=num)
    x = centers[y] + 0.4 * rng.normal(size=(num, 12))
    return x.astype("f4"), y


def _model(layers=8, **compile_arguments):
    model = VDSH(layers=layers, width=16, bits=8, num_classes=3)
    model.compile(**compile_arguments)
    return model


class PlanTest(case.TestCase):
    @parameterized.product(
        layers=(2, 3, 4, 5, 8, 16, 48, 64), epochs=(1, 2, 3, 5, 10, 100)
    )
    def test_fills_the_epochs_and_ends_deep(self, layers, epochs):
        stages = recipes.plan(layers, epochs)
        self.assertEqual(sum(stage.epochs for stage in stages), epochs)
        self.assertEqual(stages[-1].layers, layers)
        depths = [stage.layers for stage in stages]
        self.assertEqual(depths, sorted(depths))
        rates = [stage.learning_rate for stage in stages]
        self.assertEqual(rates, sorted(rates, reverse=True))

    def test_first_stage_is_the_longest(self):
        first, last = recipes.plan(48, 10)
        self.assertEqual((first.layers, last.layers), (4, 48))
        self.assertGreater(first.epochs, last.epochs)

    def test_layers_that_start_random_are_trained_from_the_start(self):
        (only,) = recipes.plan(48, 10, depth=48)
        self.assertEqual(only.layers, 48)

    def test_stages_that_are_given_stay(self):
        given = Recipe(stages=Stages.parse("4:2:1e-3,8:1:1e-4"))
        self.assertEqual(given.planned(8, 99), given)

    @parameterized.parameters("fast", 3, 0.1)
    def test_unknown_recipe(self, recipe):
        with self.assertRaisesRegex(ValueError, '`recipe` must be "auto"'):
            _model(recipe=recipe)


class FitTest(case.TestCase):
    def test_deep_network_learns_by_fit_alone(self):
        x, y = _data(600)
        model = _model(layers=24)
        history = model.fit(x, y, epochs=20, verbose=0).history
        self.assertGreater(model.evaluate(x, y, verbose=0)[1], 0.9)
        self.assertGreater(history["distinct_codes"][-1], 1)
        self.assertEqual(model.encoder.depth, 24)

    def test_recipe_is_visible(self):
        x, y = _data()
        model = _model()
        self.assertIsNone(model.recipe.stages)
        model.fit(x, y, epochs=4, verbose=0)
        self.assertEqual(model.recipe.stages, recipes.plan(8, 4))
        self.assertIn("4:3:0.002,8:1:0.00025", str(model.recipe))

    def test_each_piece_can_be_overridden(self):
        x, y = _data()
        model = _model(recipe=Recipe(noise=0.0, rate=1e-2))
        model.fit(x, y, epochs=4, verbose=0)
        self.assertEqual(model.recipe.noise, 0.0)
        self.assertEqual(model.recipe.stages[0].learning_rate, 1e-2)
        self.assertEqual(model.recipe.weight_decay, Recipe().weight_decay)

    def test_dataset_is_planned_likewise(self):
        x, y = _data()
        model = _model()
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(40)
        model.fit(data, epochs=4, verbose=0)
        self.assertEqual(model.recipe.stages, recipes.plan(8, 4))

    def test_own_plan_overrides(self):
        x, y = _data()
        model = VDSH(layers=6, width=16, bits=8, num_classes=3, grow_from=2)
        model.compile()
        stages = [Stage(2, 1, 1e-3), Stage(6, 1, 1e-4)]
        depths = []
        spy = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: depths.append(model.encoder.depth)
        )
        grow = GrowDepth(stages)
        model.fit(x, y, epochs=2, callbacks=[grow, spy], verbose=0)
        self.assertEqual(depths, [2, 6])

    def test_own_optimizer_sets_the_rate(self):
        x, y = _data()
        adam = keras.optimizers.Adam(5e-3, epsilon=1e-18)
        model = _model(optimizer=adam)
        model.fit(x, y, epochs=4, verbose=0)
        rates = [stage.learning_rate for stage in model.recipe.stages]
        self.assert_close(rates, [5e-3, 6.25e-4], atol=1e-8)

    def test_own_schedule_of_rates_stays(self):
        x, y = _data()
        decay = keras.optimizers.schedules.CosineDecay(1e-3, 100)
        adam = keras.optimizers.Adam(decay, epsilon=1e-18)
        model = _model(optimizer=adam)
        model.fit(x, y, epochs=4, verbose=0)
        self.assertEqual(model.encoder.depth, 8)
        self.assertGreater(model.evaluate(x, y, verbose=0)[1], 0.5)

    def test_second_fit_goes_on_at_full_depth(self):
        x, y = _data()
        model = _model()
        model.fit(x, y, epochs=6, verbose=0)
        first = model.evaluate(x, y, verbose=0)
        model.fit(x, y, epochs=6, verbose=0)
        (stage,) = model.recipe.stages
        self.assertEqual(stage.layers, 8)
        self.assertLess(stage.learning_rate, recipes.rate_at(8))
        self.assertLess(model.evaluate(x, y, verbose=0)[0], first[0] * 1.1)

    def test_resumed_training_equals_uninterrupted(self):
        x, y = _data()
        whole = _model()
        whole.fit(x, y, epochs=6, verbose=0)
        part = _model()
        stop = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, _: setattr(
                part, "stop_training", epoch == 2
            )
        )
        part.fit(x, y, epochs=6, callbacks=[stop], verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.keras")
            part.save(path)
            again = keras.saving.load_model(path)
        again.fit(x, y, epochs=6, initial_epoch=3, verbose=0)
        for a, b in zip(whole.weights, again.weights, strict=True):
            self.assertEqual(a.numpy().tobytes(), b.numpy().tobytes())

    def test_recipe_survives_saving(self):
        x, y = _data()
        model = _model(recipe=Recipe(noise=0.05, dropout=0.1))
        model.fit(x, y, epochs=2, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.keras")
            model.save(path)
            again = keras.saving.load_model(path)
        self.assertEqual(again.recipe.noise, 0.05)
        self.assertEqual(again.recipe.dropout, 0.1)

    @parameterized.parameters((40, 16), (178, 16), (1600, 64), (60_000, 256))
    def test_batch_size_follows_the_rows(self, rows, size):
        self.assertEqual(batches.default_size(rows), size)


class _Breaker(keras.callbacks.Callback):
    """Ruins the weights in some epochs, before they are looked at."""

    def __init__(self, epochs, value):
        super().__init__()
        self.epochs, self.value = epochs, value

    def on_train_batch_end(self, batch, logs=None):
        if self.epochs:
            kernel = self.model.encoder.kernels[-1]
            kernel.assign(np.full(kernel.shape, self.value, np.float32))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs -= self.epochs > 0


class WatchTest(case.TestCase):
    @parameterized.parameters(np.nan, np.inf, 0.0)
    def test_goes_back_to_the_last_good_weights(self, value):
        x, y = _data()
        model = _model(layers=4)
        with self.assertWarnsRegex(UserWarning, "goes back to the last good"):
            model.fit(x, y, epochs=4, callbacks=[_Breaker(1, value)], verbose=0)
        for variable in model.weights:
            self.assertTrue(np.isfinite(variable.numpy()).all())
        self.assertGreater(len(np.unique(model.encode(x), axis=0)), 1)

    @parameterized.parameters(np.nan, 0.0)
    def test_stops_when_going_back_does_not_help(self, value):
        x, y = _data()
        model = _model(layers=4)
        with (
            warnings.catch_warnings(),
            self.assertRaisesRegex(CollapsedError, "last good epoch"),
        ):
            warnings.simplefilter("ignore")
            model.fit(x, y, epochs=9, callbacks=[_Breaker(9, value)], verbose=0)
        for variable in model.weights:
            self.assertTrue(np.isfinite(variable.numpy()).all())

    def test_rates_become_smaller(self):
        x, y = _data()
        model = _model(layers=4)
        rates = []
        spy = keras.callbacks.LambdaCallback(
            on_train_batch_begin=lambda batch, logs: rates.append(
                float(model.optimizer.learning_rate)
            )
        )
        with self.assertWarns(UserWarning):
            model.fit(
                x, y, epochs=2, callbacks=[_Breaker(1, 0.0), spy], verbose=0
            )
        peak = recipes.RATE
        half = len(rates) // 2
        self.assertGreater(max(rates[:half]), 0.9 * peak)
        self.assertLess(max(rates[half:]), 1.01 * Watch.SLOWER * peak)


if __name__ == "__main__":
    absltest.main()
