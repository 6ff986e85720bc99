"""VDSH as a Keras model: schedules, saving, cost, repeatability."""

import dataclasses
import os
import subprocess
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf import codes
from vdsh_tf.config import Solver
from vdsh_tf.solver import schedules

DIM = 12


def _data(num=96, classes=3, seed=0):
    """Noisy clusters: learnable, not trivial."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(classes, DIM))
    y = rng.integers(classes, size=num)
    x = centers[y] + 0.5 * rng.normal(size=(num, DIM))
    return x.astype("f4"), y


SOLVER = {field.name for field in dataclasses.fields(Solver)}


def _model(optimizer="auto", **kwargs):
    """A small model; settings of the solver may stand among the others."""
    settings = {"layers": 4, "width": 16, "bits": 8, "num_classes": 3}
    solver = {k: kwargs.pop(k) for k in SOLVER & set(kwargs)}
    model = VDSH(**{**settings, **kwargs}, solver=Solver(**solver))
    model.compile(optimizer=optimizer, recipe=None)
    return model


def _kernels(model):
    return [k.numpy() for k in (*model.encoder.kernels, model.classifier)]


class FitTest(case.TestCase):
    @parameterized.parameters("online", "full")
    def test_learns(self, schedule):
        x, y = _data(300)
        model = _model(schedule=schedule)
        model.fit(x, y, epochs=1, batch_size=32, verbose=0)
        before = model.evaluate(x, y, verbose=0)
        epochs = 60 if schedule == "online" else 100
        history = model.fit(x, y, epochs=epochs, batch_size=100, verbose=0)
        objective, accuracy = model.evaluate(x, y, verbose=0)
        self.assertLess(objective, 0.7 * before[0])
        self.assertGreater(accuracy, 0.9)
        self.assertContainsSubset(
            ["objective", "accuracy", "residual", "dual"], history.history
        )

    def test_multi_hot_equals_integer_labels(self):
        x, y = _data()
        first, second = _model(), _model()
        first.fit(x, y, shuffle=False, verbose=0)
        second.fit(x, np.eye(3)[y], shuffle=False, verbose=0)
        for a, b in zip(_kernels(first), _kernels(second), strict=True):
            self.assert_equal(a, b)

    def test_dataset_equals_arrays(self):
        x, y = _data()
        first, second = _model(), _model()
        first.fit(x, y, batch_size=32, shuffle=False, verbose=0)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
        second.fit(data, verbose=0)
        for a, b in zip(_kernels(first), _kernels(second), strict=True):
            self.assert_equal(a, b)

    def test_same_seed_same_weights_bit_for_bit(self):
        x, y = _data(256)
        runs = []
        for _ in range(2):
            keras.utils.set_random_seed(1)
            model = _model(layers=12, width=64)
            model.fit(x, y, epochs=3, batch_size=64, verbose=0)
            runs.append(_kernels(model))
        for a, b in zip(*runs, strict=True):
            self.assertEqual(a.tobytes(), b.tobytes())

    def test_steps_per_execution_changes_nothing(self):
        x, y = _data(128)
        first, second = _model(), _model()
        second.compile(recipe=None, steps_per_execution=4)
        for model in (first, second):
            model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
        for a, b in zip(_kernels(first), _kernels(second), strict=True):
            self.assert_close(a, b, atol=1e-6)

    @parameterized.parameters(
        (np.ones(5),), (-np.ones(96),), (np.zeros(96),), (np.full(96, np.nan),)
    )
    def test_bad_sample_weights(self, weight):
        x, y = _data()
        with self.assertRaisesRegex(ValueError, "Sample weights must"):
            _model().fit(x, y, sample_weight=weight, verbose=0)

    def test_encode_packs_predict(self):
        x, y = _data()
        model = _model(bits=11)
        model.fit(x, y, verbose=0)
        embedding = model.predict(x, verbose=0)
        got = model.encode(x, batch_size=7)
        self.assertEqual(got.shape, (len(x), 2))
        self.assert_equal(codes.unpack(got, 11), embedding > 0)

    def test_works_inside_a_function_and_with_keras_callbacks(self):
        x, y = _data()
        model = _model()
        stop = keras.callbacks.EarlyStopping(
            "objective", min_delta=10.0, mode="min"
        )
        history = model.fit(
            x, y, epochs=9, verbose=0, validation_data=(x, y), callbacks=[stop]
        )
        self.assertLen(history.history["val_accuracy"], 2)
        compiled = tf.function(lambda rows: model(rows) * 2.0)
        self.assert_close(
            compiled(x), 2 * model.predict(x, verbose=0), atol=1e-5
        )

    def test_encode_before_fit(self):
        with self.assertRaisesRegex(ValueError, "no weights yet"):
            _model().encode(_data()[0])


class ScheduleTest(case.TestCase):
    @parameterized.product(gamma=(3.0, None), margin=(0.0, 0.1))
    def test_one_online_batch_is_the_first_full_iteration(self, gamma, margin):
        x, y = _data(40)
        trained = []
        papers_order = {
            "online": {"shared_step": False, "jacobi": False},
            "full": {},
        }
        for schedule in papers_order:
            model = _model(
                None,
                schedule=schedule,
                gamma=gamma,
                margin=margin,
                alpha_w=0.5,
                beta=2.0,
                copy_step=0.1,
                preserve=0.3,
                preserve_rank=2,
                dtype="float64",
                **papers_order[schedule],
            )
            size = len(x) if schedule == "online" else 7
            model.fit(x, y, batch_size=size, shuffle=False, verbose=0)
            trained.append(_kernels(model))
        start = _model(dtype="float64", preserve=0.3, preserve_rank=2)
        start.build((None, DIM))
        for a, b, c in zip(*trained, _kernels(start), strict=True):
            self.assert_close(a, b, atol=1e-10)
            self.assertGreater(np.abs(a - c).max(), 1e-6)

    @parameterized.parameters(96, 10, 1)
    def test_full_does_not_depend_on_the_batch_split(self, batch_size):
        x, y = _data()
        trained = []
        for size in (32, batch_size):
            model = _model(schedule="full", dtype="float64", beta=1.0)
            model.fit(x, y, epochs=4, batch_size=size, verbose=0)
            trained.append(_kernels(model))
        for a, b in zip(*trained, strict=True):
            self.assert_close(a, b, atol=1e-10)

    def test_gradient_descent_of_rate_one_is_line_12(self):
        x, y = _data()
        trained = []
        for optimizer in (None, keras.optimizers.SGD(1.0)):
            model = _model(
                optimizer,
                dtype="float64",
                alpha_theta=0.2,
                preserve_error_norm=False,
            )
            model.fit(x, y, batch_size=len(x), verbose=0)
            trained.append(_kernels(model)[:-1])
        for a, b in zip(*trained, strict=True):
            self.assert_close(a, b, atol=1e-7)

    def test_sweeps_continue_the_algorithm_on_the_batch(self):
        x, y = _data()
        same = {"alpha_w": 0.5, "beta": 2.0, "gamma": 3.0, "dtype": "float64"}
        same |= {"preserve": 0.3, "preserve_rank": 2}
        online = _model(None, sweeps=3, margin=0.0, shared_step=False, **same)
        online.fit(x, y, batch_size=len(x), shuffle=False, verbose=0)
        full = _model(schedule="full", **same)
        full.fit(x, y, epochs=3, verbose=0)
        for a, b in zip(
            _kernels(online)[:-1], _kernels(full)[:-1], strict=True
        ):
            self.assert_close(a, b, atol=1e-10)

    def test_full_refuses_what_does_not_fit(self):
        model = _model(schedule="full", layers=4, width=10**5)
        theta = [tf.zeros([1, d]) for d in (10**5,) * 3 + (8,)]
        with self.assertRaisesRegex(
            MemoryError, r"5 N sum_m D_m = 5 x 10,000,000 x 300,008.*online"
        ):
            schedules.start_stores(
                theta, tf.zeros([8, 3]), range(10**7), model.solver, None
            )

    def test_full_refuses_an_optimizer(self):
        with self.assertRaisesRegex(ValueError, "optimizer=adam"):
            _model("adam", schedule="full")

    def test_large_epsilon_warns(self):
        with self.assertWarnsRegex(UserWarning, "epsilon=1e-07"):
            _model("adam")


class SavingTest(case.TestCase):
    def test_round_trip_goes_on_training_alike(self):
        x, y = _data()
        model = _model(layers=5, grow_from=3, margin=0.07, gamma=9.0)
        model.fit(x, y, verbose=0, shuffle=False)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.keras")
            model.save(path)
            again = keras.saving.load_model(path)
        self.assertEqual(model.get_config(), again.get_config())
        self.assert_equal(model.encode(x), again.encode(x))
        for m in (model, again):
            m.fit(x, y, verbose=0, shuffle=False)
        for a, b in zip(_kernels(model), _kernels(again), strict=True):
            self.assertEqual(a.tobytes(), b.tobytes())

    def test_config_holds_every_argument(self):
        config = _model(
            schedule="full",
            initializer="he_normal",
            seed=4,
            alpha_theta=0.5,
            alpha_w=0.25,
            beta=3.0,
            copy_step=0.5,
            code_steps=2,
            margin=0.5,
            margin_weight=0.75,
        ).get_config()
        again = VDSH.from_config(config)
        self.assertEqual(again.get_config(), config)
        self.assertEqual(again.solver.margin_weight, 0.75)

    @parameterized.parameters(
        ("beta", 0.0),
        ("beta", -1.0),
        ("gamma", 0.0),
        ("gamma", -2.0),
        ("alpha_w", 0.0),
        ("alpha_theta", -1.0),
        ("copy_step", 1.0),
        ("sweeps", 0),
        ("bits", 0),
        ("num_classes", 1),
        ("margin", -0.1),
        ("schedule", "batch"),
        ("beta", float("nan")),
    )
    def test_bad_settings_name_the_value(self, name, value):
        with self.assertRaisesRegex(ValueError, f"`{name}` must.*{value}"):
            _model(**{name: value})

    @parameterized.parameters(
        ("sweeps", 2), ("shared_step", True), ("mean_damping", 0.1)
    )
    def test_full_refuses_what_algorithm_1_does_not_have(self, name, value):
        with self.assertRaisesRegex(ValueError, f"`{name}` must be left alone"):
            _model(schedule="full", **{name: value})

    @parameterized.parameters(
        {"jacobi": True, "sweeps": 2},
        {"jacobi": False, "mean_damping": 0.1},
        {"preserve_error_norm": True, "code_steps": 2},
        {"preserve_error_norm": True, "sweeps": 2},
        {"preserve_error_norm": True, "jacobi": False},
    )
    def test_settings_that_exclude_each_other(self, **settings):
        with self.assertRaisesRegex(ValueError, "must be"):
            _model(**settings)

    def test_reads_a_config_of_0_1(self):
        old = _model(margin=0.07, gamma=9.0).get_config()
        solver = old.pop("solver")
        solver["keep_error"] = solver.pop("preserve_error_norm")
        solver["input_metric"] = solver.pop("mean_damping")
        again = VDSH.from_config({**old, **solver})
        want = _model(margin=0.07, gamma=9.0, goal="class")
        self.assertEqual(again.solver, want.solver)

    def test_reads_a_full_config_of_0_1(self):
        old = _model(schedule="full", beta=0.3).get_config()
        solver = old.pop("solver")
        # 0.1.0 wrote the switches of the online schedule here, too.
        flat = {**old, **solver, "jacobi": False, "shared_step": False}
        self.assertEqual(VDSH.from_config(flat).solver.beta, 0.3)


class CostTest(case.TestCase):
    def _matmuls(self, layers, **kwargs):
        model = _model(layers=layers, **kwargs)
        model.build((None, DIM))
        model.optimizer.build(model.trainable_variables)
        data = (tf.TensorSpec([32, DIM]), tf.TensorSpec([32], tf.int64))
        graph = (
            tf.function(lambda x, y: model.train_step((x, y)))
            .get_concrete_function(*data)
            .graph
        )
        ops = list(graph.get_operations())
        for function in graph.as_graph_def().library.function:
            ops.extend(function.node_def)
        # A product with one column is a sum over rows, not work of its size.
        sums = {
            op.name
            for op in graph.get_operations()
            if op.type == "MatMul" and op.outputs[0].shape[-1] == 1
        }
        kinds = [
            getattr(op, "type", getattr(op, "op", None))
            for op in ops
            if op.name not in sums
        ]
        return sum("MatMul" in kind for kind in kinds), kinds

    @parameterized.parameters((None, 3), (False, 4))
    def test_products_per_layer(self, preserve, products):
        few, _ = self._matmuls(4, preserve_error_norm=preserve)
        many, kinds = self._matmuls(24, preserve_error_norm=preserve)
        self.assertEqual(many - few, products * 20)
        self.assertLessEqual(many, products * 24 + 9)
        # Back-propagation would leave its gradient ops behind.
        self.assertNotIn("ReluGrad", kinds)


class MemoryTest(case.TestCase):
    PROBE = """
import sys
import numpy as np, tensorflow as tf
from vdsh_tf import VDSH
from vdsh_tf.research.benchmarks import memory
num, batch = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
x = rng.random((batch, 64)).astype("f4")
y = np.arange(batch) % 10
data = tf.data.Dataset.from_tensors((x, y)).repeat(num // batch)
model = VDSH(layers=16, width=128, bits=16)
model.compile()
model.fit(data, verbose=0)
print(memory.peak_mb())
"""

    def _peak(self, num, batch):
        out = subprocess.run(
            [sys.executable, "-c", self.PROBE, str(num), str(batch)],
            check=True,
            capture_output=True,
            text=True,
        )
        return float(out.stdout.split()[-1])

    def test_online_memory_does_not_grow_with_samples(self):
        small, large = self._peak(10_000, 500), self._peak(60_000, 500)
        # One vector of state per layer for the other 50,000 samples would be
        # 50,000 x (15 x 128 + 16) floats = 369 MiB.
        self.assertLess(large - small, 60)


if __name__ == "__main__":
    absltest.main()
