"""VDSH among Keras' own callbacks, data sources and habits."""

import csv
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
from vdsh_tf import RetrievalEvaluation
from vdsh_tf.callbacks import evaluation
from vdsh_tf.data import datasets

DIM = 12


def _data(num=240, classes=3, seed=0):
    """Noisy clusters: learnable, not trivial."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(7).normal(size=(classes, DIM))
    y = rng.integers(classes, size=num)
    x = centers[y] + 0.5 * rng.normal(size=(num, DIM))
    return x.astype("f4"), y


def _model(layers=6, compiled=None, **kwargs):
    model = VDSH(layers=layers, width=16, bits=8, num_classes=3, **kwargs)
    model.compile(**(compiled or {}))
    return model


def _dataset(*arrays, batch=32):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(batch)


class Batches(keras.utils.PyDataset):
    """Batches of arrays, which notes what happens to it."""

    def __init__(self, *arrays, batch=32, **kwargs):
        super().__init__(**kwargs)
        self.arrays, self.batch = arrays, batch
        self.events = []

    def __len__(self):
        return -(-len(self.arrays[0]) // self.batch)

    def __getitem__(self, i):
        rows = slice(i * self.batch, (i + 1) * self.batch)
        self.events.append(i)
        return tuple(array[rows] for array in self.arrays)

    def on_epoch_end(self):
        self.events.append("end")


def _endless(*arrays, batch=32):
    while True:
        for i in range(0, len(arrays[0]), batch):
            yield tuple(array[i : i + batch] for array in arrays)


class Interruption(keras.callbacks.Callback):
    """Breaks off in the middle of an epoch."""

    def __init__(self, epoch):
        super().__init__()
        self.at = epoch
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if self.epoch == self.at and batch == 3:
            raise KeyboardInterrupt


class KerasTestCase(case.TestCase):
    def assert_same_weights(self, first, second, atol=None):
        for a, b in zip(first.weights, second.weights, strict=True):
            if atol is None:
                self.assertEqual(a.numpy().tobytes(), b.numpy().tobytes())
            else:
                self.assert_close(a.numpy(), b.numpy(), atol=atol)

    def file(self, name):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return os.path.join(folder.name, name)


class ValidationTest(KerasTestCase):
    NAMES = ("val_objective", "val_loss", "val_accuracy", "val_map")

    def _validation(self, kind):
        x, y = _data(120, seed=1)
        return {
            "split": {"validation_split": 0.3},
            "arrays": {"validation_data": (x, y)},
            "multi_hot": {"validation_data": (x, np.eye(3)[y])},
            "weights": {"validation_data": (x, y, np.ones(120))},
            "dataset": {"validation_data": _dataset(x, y)},
            "py_dataset": {"validation_data": Batches(x, y)},
            "generator": {
                "validation_data": _endless(x, y),
                "validation_steps": 4,
            },
        }[kind]

    @parameterized.parameters(
        "split",
        "arrays",
        "multi_hot",
        "weights",
        "dataset",
        "py_dataset",
        "generator",
    )
    def test_reports_objective_accuracy_and_map(self, kind):
        model = _model()
        history = model.fit(
            *_data(), epochs=8, verbose=0, **self._validation(kind)
        ).history
        for name in self.NAMES:
            self.assertLen(history[name], 8)
        self.assertEqual(history["val_loss"], history["val_objective"])
        self.assertEqual(history["loss"], history["objective"])
        self.assertGreater(len(set(history["val_map"])), 1)
        self.assertBetween(history["val_map"][-1], 0.5, 1.0)

    def test_map_is_reported_when_keras_validates(self):
        history = (
            _model()
            .fit(
                *_data(),
                epochs=5,
                verbose=0,
                validation_data=_data(seed=1),
                validation_freq=2,
            )
            .history
        )
        for name in self.NAMES:
            self.assertLen(history[name], 2)

    def test_own_evaluation_overrides(self):
        part = datasets.Part(*_data(seed=1))
        own = RetrievalEvaluation(part, part, every=4)
        history = (
            _model()
            .fit(
                *_data(),
                epochs=4,
                verbose=0,
                validation_split=0.2,
                callbacks=[own],
            )
            .history
        )
        self.assertLen(history["val_map"], 1)

    def test_objectives_can_be_compared(self):
        """Batches of one size: each row has the same share of the penalty."""
        x, y = _data(240)
        model = _model(compiled={"recipe": None})
        history = model.fit(
            x,
            y,
            batch_size=80,
            epochs=2,
            verbose=0,
            validation_data=(x, y),
        ).history
        again = model.evaluate(x, y, batch_size=80, verbose=0)
        self.assertAlmostEqual(history["val_objective"][-1], again[0], places=6)

    def test_rows_are_drawn_from_all_of_sorted_arrays(self):
        x = np.arange(60_000.0)[:, None] + np.zeros((1, 2))
        y = np.arange(60_000) // 20_000
        (made,) = evaluation.held_out_evaluation((x, y))
        self.assertLen(made.query, evaluation.MOST_QUERIES)
        self.assertLen(
            made.database, evaluation.MOST_ROWS - evaluation.MOST_QUERIES
        )
        for part in (made.query, made.database):
            share = np.bincount(part.y) / len(part)
            self.assert_close(share, np.full(3, 1 / 3), atol=0.05)
        both = {*made.query.x[:, 0], *made.database.x[:, 0]}
        self.assertLen(both, evaluation.MOST_ROWS)

    @parameterized.parameters(((), ()), (np.ones([5, 2]), np.arange(5) % 2))
    def test_few_rows_are_not_evaluated(self, x, y):
        self.assertEqual(evaluation.held_out_evaluation((x, y)), [])


class CallbacksTest(KerasTestCase):
    def test_early_stopping_restores_the_best_weights(self):
        x, y = _data()
        held_out = _data(seed=1)
        model = _model()
        best = {}

        def spoil(epoch, logs):
            if not best or logs["val_map"] > best["map"]:
                best.update(map=logs["val_map"], codes=model.encode(x))
            if epoch == 7:
                kernel = model.encoder.kernels[0]
                noise = np.random.default_rng(0).normal(size=kernel.shape)
                kernel.assign(noise)

        stop = keras.callbacks.EarlyStopping(
            monitor="val_map",
            mode="max",
            patience=3,
            restore_best_weights=True,
        )
        history = model.fit(
            x,
            y,
            epochs=40,
            verbose=0,
            validation_data=held_out,
            callbacks=[
                stop,
                keras.callbacks.LambdaCallback(on_epoch_end=spoil),
            ],
        ).history
        values = history["val_map"]
        self.assertLess(len(values), 40)
        self.assertEqual(stop.best_epoch, int(np.argmax(values)))
        self.assert_equal(model.encode(x), best["codes"])

    def test_early_stopping_as_it_comes(self):
        stop = keras.callbacks.EarlyStopping(min_delta=10.0)
        history = _model().fit(
            *_data(),
            epochs=9,
            verbose=0,
            validation_split=0.2,
            callbacks=[stop],
        )
        self.assertLen(history.epoch, 2)

    def test_terminate_on_nan(self):
        model = _model()

        def break_weights(batch, logs=None):
            if batch == 4:
                kernel = model.encoder.kernels[0]
                kernel.assign(np.full(kernel.shape, np.nan, "f4"))

        model.fit(
            *_data(),
            epochs=2,
            verbose=0,
            callbacks=[
                keras.callbacks.LambdaCallback(
                    on_train_batch_begin=break_weights
                ),
                keras.callbacks.TerminateOnNaN(),
            ],
        )
        self.assertTrue(model.stop_training)

    def test_checkpoint_of_the_whole_model_goes_on_alike(self):
        x, y = _data()
        path = self.file("at-{epoch:02d}.keras")
        model = _model()
        save = keras.callbacks.ModelCheckpoint(path)
        model.fit(x, y, epochs=6, verbose=0, callbacks=[save])
        for epoch in (2, 5):
            again = keras.saving.load_model(path.format(epoch=epoch))
            again.fit(x, y, epochs=6, initial_epoch=epoch, verbose=0)
            self.assert_same_weights(model, again)

    def test_checkpoint_of_the_best_map(self):
        x, y = _data()
        held_out = _data(seed=1)
        path = self.file("best.keras")
        save = keras.callbacks.ModelCheckpoint(
            path, monitor="val_map", mode="max", save_best_only=True
        )
        model = _model()
        history = model.fit(
            x,
            y,
            epochs=5,
            verbose=0,
            validation_data=held_out,
            callbacks=[save],
        ).history
        again = keras.saving.load_model(path)
        (evaluate,) = evaluation.held_out_evaluation(held_out)
        evaluate.set_model(again)
        logs = {"val_objective": 0.0}
        evaluate.on_epoch_end(0, logs)
        self.assertAlmostEqual(logs["val_map"], max(history["val_map"]))

    @parameterized.product(epoch=(1, 3, 5), fresh=(True, False))
    def test_backup_and_restore(self, epoch, fresh):
        """Interrupted in the first stage, before and in the second."""
        x, y = _data()
        folder = self.file("backup")

        def fit(model, *more):
            backup = keras.callbacks.BackupAndRestore(folder)
            callbacks = [backup, *more]
            model.fit(x, y, epochs=6, verbose=0, callbacks=callbacks)

        compiled = {"recipe": {"stages": "3:3:2e-3,6:3:1e-3"}}
        settings = {"grow_from": 3, "compiled": compiled}
        whole = _model(**settings)
        whole.fit(x, y, epochs=6, verbose=0)
        model = _model(**settings)
        with self.assertRaises(KeyboardInterrupt):
            fit(model, Interruption(epoch))
        if fresh:
            model = _model(**settings)
        fit(model)
        self.assertEqual(model.encoder.depth, 6)
        self.assert_same_weights(whole, model)

    def test_backup_and_restore_by_the_planned_recipe(self):
        """The same model: it is resumed, not trained for a second time."""
        x, y = _data()
        backup = keras.callbacks.BackupAndRestore(self.file("backup"))
        whole = _model()
        whole.fit(x, y, epochs=4, verbose=0)
        model = _model()
        with self.assertRaises(KeyboardInterrupt):
            model.fit(
                x,
                y,
                epochs=4,
                verbose=0,
                callbacks=[backup, Interruption(2)],
            )
        model.fit(x, y, epochs=4, verbose=0, callbacks=[backup])
        self.assertEqual(model.recipe, whole.recipe)
        self.assert_same_weights(whole, model)

    def test_tensorboard(self):
        folder = self.file("logs")
        _model().fit(
            *_data(),
            epochs=3,
            verbose=0,
            validation_split=0.3,
            callbacks=[keras.callbacks.TensorBoard(folder, histogram_freq=1)],
        )
        tags = set()
        for path in glob.glob(os.path.join(folder, "*", "events*")):
            for event in tf.compat.v1.train.summary_iterator(path):
                tags.update(
                    (value.tag, event.step) for value in event.summary.value
                )
        for name in ("epoch_objective", "epoch_map", "epoch_distinct_codes"):
            for step in range(3):
                self.assertIn((name, step), tags)

    def test_reduce_lr_on_plateau_counts_from_then_on(self):
        rates = {}

        class Rates(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                self.rates = rates.setdefault((self.name, epoch), [])

            def on_train_batch_begin(self, batch, logs=None):
                self.rates.append(float(self.model.optimizer.learning_rate))

        def fit(name, *callbacks):
            spy = Rates()
            spy.name = name
            _model(layers=4).fit(
                *_data(), epochs=4, verbose=0, callbacks=[*callbacks, spy]
            )

        # Nothing is ever good enough: halved after epochs 2, 3 and 4.
        plateau = keras.callbacks.ReduceLROnPlateau(
            monitor="loss", min_delta=1e3, factor=0.5, patience=1, min_lr=0
        )
        fit("plain")
        fit("plateau", plateau)
        for epoch, factor in enumerate((1, 1, 0.5, 0.25)):
            want = factor * np.array(rates["plain", epoch])
            self.assert_close(rates["plateau", epoch], want, rtol=1e-5)

    def test_csv_logger_has_the_same_columns_in_every_row(self):
        path = self.file("log.csv")
        _model().fit(
            *_data(),
            epochs=4,
            verbose=0,
            validation_split=0.2,
            callbacks=[keras.callbacks.CSVLogger(path)],
        )
        with open(path, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertLen(rows, 4)
        for name in (
            "objective",
            "accuracy",
            "residual",
            "distinct_codes",
            "val_objective",
            "val_accuracy",
            "val_map",
            "val_distinct_codes",
        ):
            for row in rows:
                self.assertTrue(np.isfinite(float(row[name])), name)

    def test_two_who_set_the_rate(self):
        x, y = _data()
        scheduler = keras.callbacks.LearningRateScheduler(lambda epoch: 1e-3)
        with self.assertRaisesRegex(
            ValueError, "one party.*LearningRateScheduler.*recipe=None"
        ):
            _model().fit(x, y, verbose=0, callbacks=[scheduler])
        compiled = {"recipe": None}
        history = _model(compiled=compiled).fit(
            x, y, epochs=2, verbose=0, callbacks=[scheduler]
        )
        self.assert_close(history.history["learning_rate"], [1e-3] * 2, 1e-8)

    def test_schedule_of_the_optimizer_counts(self):
        rates = []

        class Rates(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                rates.append(float(self.model.optimizer.learning_rate))

        decay = keras.optimizers.schedules.InverseTimeDecay(1e-3, 1, 1.0)
        adam = keras.optimizers.Adam(decay, epsilon=1e-18)
        model = _model(layers=4, compiled={"optimizer": adam})
        model.fit(*_data(), 60, 1, 0, [Rates()])
        self.assert_close(rates, 1e-3 / (1 + np.arange(1, 5)), atol=1e-8)


class ModelTest(KerasTestCase):
    def _summary(self, model):
        lines = []
        model.summary(print_fn=lambda text, **_: lines.append(text))
        return "\n".join(lines)

    def test_summary(self):
        model = _model()
        self.assertIn("unbuilt", self._summary(model))
        model.fit(*_data(), verbose=0)
        text = self._summary(model)
        self.assertIn("(None, 8)", text)
        # 12 x 16, four times 16 x 16, 16 x 8, and the classifier: 8 x 3 for
        # the labels, 8 x 32 for what is kept beside them.
        count = 192 + 1024 + 128 + 24 + 256
        self.assertIn(f"Trainable params: {count:,}", text)

    def test_output_shape(self):
        self.assertEqual(_model().compute_output_shape((None, DIM)), (None, 8))

    def test_functional_model_around_it(self):
        x, y = _data()
        model = _model()
        model.fit(x, y, verbose=0)
        inputs = keras.Input([DIM])
        around = keras.Model(inputs, keras.ops.sum(model(inputs), axis=-1))
        self.assert_close(
            around.predict(x, verbose=0),
            model.predict(x, verbose=0).sum(axis=1),
            atol=1e-5,
        )

    def test_clone_model(self):
        x, y = _data()
        model = _model(grow_from=2, seed=3)
        model.fit(x, y, verbose=0)
        clone = keras.models.clone_model(model)
        self.assertEqual(clone.get_config(), model.get_config())
        # As new: not what the other has learned.
        clone.compile()
        clone.fit(x, y, verbose=0)
        self.assert_same_weights(clone, model)

    @parameterized.parameters(
        "mixed_bfloat16", "mixed_float16", "bfloat16", "float16"
    )
    def test_half_precision_is_refused_clearly(self, policy):
        with self.assertRaisesRegex(
            ValueError, f'`dtype` must be float32.*{policy}.*dtype="float32"'
        ):
            _model(dtype=policy)

    def test_half_precision_all_around(self):
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy("mixed_bfloat16")
        try:
            with self.assertRaisesRegex(ValueError, "mixed_bfloat16"):
                _model()
            model = _model(dtype="float32")
            model.fit(*_data(), epochs=15, verbose=0)
            accuracy = model.evaluate(*_data(), verbose=0)[1]
        finally:
            keras.config.set_dtype_policy(before)
        self.assertGreater(accuracy, 0.8)

    @parameterized.parameters(
        {"run_eagerly": True},
        {"steps_per_execution": 5},
    )
    def test_ways_of_running_change_nothing(self, **how):
        x, y = _data()
        plain, other = _model(), _model(compiled=how)
        for model in (plain, other):
            # 15 steps per epoch.
            model.fit(x, y, batch_size=16, epochs=2, verbose=0)
        if "steps_per_execution" in how:
            # Rates are set once per call.
            self.assertEqual(int(other.optimizer.iterations), 15)
        else:
            self.assert_same_weights(plain, other, atol=2e-4)

    def test_steps_per_execution_at_a_constant_rate(self):
        x, y = _data()
        plain = _model(compiled={"recipe": None})
        other = _model(compiled={"recipe": None, "steps_per_execution": 5})
        for model in (plain, other):
            model.fit(x, y, batch_size=16, epochs=2, verbose=0)
        self.assert_same_weights(plain, other, atol=1e-6)

    def test_arguments_in_keras_order(self):
        x, y = _data()
        history = _model().fit(x, y, 16, 2, 0)
        self.assertLen(history.epoch, 2)


class WeightsTest(KerasTestCase):
    """A sample of weight w counts as w equal samples."""

    WEIGHT = np.array([1, 2, 3, 0, 1])
    EXACT = {"normalization": "unit", "dtype": "float64"}

    def setUp(self):
        super().setUp()
        self.x, self.y = _data(40)
        self.weight = np.tile(self.WEIGHT, 8)

    def _fit(self, *arguments, batch=1000, schedule="online", **kwargs):
        # Adam would divide rounding errors by their size.
        model = _model(
            compiled={"optimizer": None}, schedule=schedule, **self.EXACT
        )
        model.fit(
            *arguments,
            batch_size=batch,
            epochs=3,
            shuffle=False,
            verbose=0,
            **kwargs,
        )
        return model

    def _assert_counts(self, model, weight, schedule="online"):
        rows = np.repeat(np.arange(40), weight)
        repeated = self._fit(self.x[rows], self.y[rows], schedule=schedule)
        self.assert_same_weights(model, repeated, atol=1e-8)
        self.assertAlmostEqual(
            model.history.history["objective"][-1],
            repeated.history.history["objective"][-1],
            places=5,
        )
        plain = self._fit(self.x, self.y, schedule=schedule)
        first = model.encoder.kernels[0].numpy()
        other = plain.encoder.kernels[0].numpy()
        self.assertGreater(np.abs(first - other).max(), 1e-4)

    @parameterized.parameters("online", "full")
    def test_sample_weight(self, schedule):
        model = self._fit(
            self.x, self.y, sample_weight=self.weight, schedule=schedule
        )
        self._assert_counts(model, self.weight, schedule)

    def test_sample_weight_in_a_dataset(self):
        data = _dataset(self.x, self.y, self.weight, batch=40)
        self._assert_counts(self._fit(data), self.weight)

    def test_sample_weight_in_a_py_dataset(self):
        data = Batches(self.x, self.y, self.weight, batch=40)
        self._assert_counts(self._fit(data), self.weight)

    @parameterized.parameters(
        {}, {"multi_hot": True}, {"schedule": "full"}, {"dataset": True}
    )
    def test_class_weight(self, multi_hot=False, dataset=False, **kwargs):
        given = {0: 3, 2: 2}
        y = np.eye(3)[self.y] if multi_hot else self.y
        data = (_dataset(self.x, y, batch=40),) if dataset else (self.x, y)
        model = self._fit(*data, class_weight=given, **kwargs)
        weight = np.array([3, 1, 2])[self.y]
        self._assert_counts(model, weight, **kwargs)

    @parameterized.parameters(({3: 1.0},), ({0: -1.0},), ({"a": 2},))
    def test_bad_class_weight(self, given):
        with self.assertRaisesRegex(ValueError, "`class_weight` must"):
            self._fit(self.x, self.y, class_weight=given)

    def test_both_kinds_of_weights(self):
        with self.assertRaisesRegex(ValueError, "at the same time"):
            self._fit(
                self.x,
                self.y,
                class_weight={0: 2.0},
                sample_weight=self.weight,
            )

    @parameterized.parameters(-1.0, np.nan)
    def test_bad_sample_weight(self, value):
        weight = np.full(40, value)
        with self.assertRaisesRegex(ValueError, "Sample weights must be"):
            self._fit(self.x, self.y, sample_weight=weight)


class PythonDataTest(KerasTestCase):
    """Generators and PyDatasets train as `tf.data` does."""

    def setUp(self):
        super().setUp()
        self.x, self.y = _data()
        self.want = _model()
        data = _dataset(self.x, self.y)
        self.want.fit(data, epochs=3, verbose=0)

    def test_generator(self):
        model = _model()
        model.fit(
            _endless(self.x, self.y), epochs=3, steps_per_epoch=8, verbose=0
        )
        # Noise: the generator goes on where a dataset would begin anew.
        self.assert_close(
            model.encoder.mean.numpy(), self.want.encoder.mean.numpy(), 0.1
        )
        self.assertEqual(model.recipe, self.want.recipe)
        model = _model()
        model.fit(
            _endless(self.x, self.y), epochs=20, steps_per_epoch=8, verbose=0
        )
        self.assertGreater(model.evaluate(self.x, self.y, verbose=0)[1], 0.9)

    def test_generator_loses_no_batch_to_looking(self):
        made = []

        def batches():
            for i in range(8):
                made.append(i)
                part = slice(32 * i, 32 * (i + 1))
                yield self.x[part], self.y[part]

        model = _model()
        model.fit(batches(), verbose=0)
        self.assertLen(made, 8)
        self.assertEqual(int(model.accuracy_metric.count), len(self.x))

    @parameterized.parameters({}, {"workers": 4})
    def test_py_dataset_equals_dataset(self, **kwargs):
        model = _model()
        data = Batches(self.x, self.y, **kwargs)
        model.fit(data, epochs=3, shuffle=False, verbose=0)
        self.assert_same_weights(model, self.want)
        self.assertEqual(data.events.count("end"), 3)

    def test_py_dataset_is_shuffled(self):
        data = Batches(self.x, self.y)
        model = _model()
        model.fit(data, epochs=3, verbose=0)
        self.assertEqual(int(model.optimizer.iterations), 8 * 1)
        text = ",".join(map(str, data.events))
        first, second, third, _ = text.split("end")
        for orders in (second, third):
            self.assertCountEqual(orders.strip(",").split(","), "01234567")
        self.assertNotEqual(second, third)
        self.assertNotEmpty(first)

    def test_py_dataset_in_the_full_schedule(self):
        models = []
        for data in (Batches(self.x, self.y), _dataset(self.x, self.y)):
            models.append(_model(schedule="full"))
            models[-1].fit(data, epochs=2, verbose=0)
        self.assert_same_weights(*models, atol=1e-5)

    @parameterized.parameters("generator", "py_dataset")
    def test_same_checks(self, kind):
        def give(x, y):
            return Batches(x, y) if kind == "py_dataset" else _endless(x, y)

        def fit(x, y):
            _model().fit(give(x, y), steps_per_epoch=8, verbose=0)

        broken = self.x.copy()
        broken[-3] = np.nan
        with self.assertRaisesRegex(ValueError, "finite"):
            fit(broken, self.y)
        labels = self.y.copy()
        labels[-1] = 3
        with self.assertRaisesRegex(ValueError, "from 0 to 2"):
            fit(self.x, labels)
        with self.assertRaisesRegex(ValueError, "Labels must be integers"):
            fit(self.x, self.y.astype(float))
        with self.assertRaisesRegex(ValueError, "rows of a known width"):
            fit(self.x[..., None], self.y)

    @parameterized.parameters("generator", "py_dataset")
    def test_what_must_be_yielded(self, kind):
        def give(*arrays):
            return (
                Batches(*arrays) if kind == "py_dataset" else _endless(*arrays)
            )

        with self.assertRaisesRegex(ValueError, r"must yield \(x, y\)"):
            _model().fit(give(self.x), verbose=0)
        with self.assertRaisesRegex(ValueError, "`y` must be None"):
            _model().fit(give(self.x, self.y), self.y, verbose=0)
        with self.assertRaisesRegex(ValueError, "at least one batch"):
            empty = self.x[:0]
            none = Batches(empty, empty) if kind == "py_dataset" else iter(())
            _model().fit(none, verbose=0)

    def test_noise_differs_from_epoch_to_epoch(self):
        """A dataset in a fixed order would else see the same noise again."""
        seen = []

        class Spy(VDSH):
            def train_step(self, data):
                seen.append(data[0].numpy())
                return super().train_step(data)

        model = Spy(layers=4, width=16, bits=8, num_classes=3)
        model.compile(run_eagerly=True)
        model.fit(_dataset(self.x, self.y, batch=240), epochs=2, verbose=0)
        first, second = seen
        self.assertGreater(np.abs(first - self.x).max(), 0.01)
        self.assertGreater(np.abs(first - second).max(), 0.01)


if __name__ == "__main__":
    absltest.main()
