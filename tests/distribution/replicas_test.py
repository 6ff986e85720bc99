"""Two devices train as one does; a process of its own has the devices."""

import json
import subprocess
import sys

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import two_devices
from vdsh_tf.distribution import replicas


class SomeReplicas(replicas.Replicas):
    """Some of `count` replicas, without a strategy."""

    def __init__(self, local, count):
        self.local, self.count = local, count


class SlicesTest(case.TestCase):
    @parameterized.product(rows=(1, 2, 7, 8), count=(1, 2, 3), static=(0, 1))
    def test_every_row_once(self, rows, count, static):
        x = np.arange(rows * 2.0).reshape(rows, 2)
        all_of_them = SomeReplicas(tuple(range(count)), count)

        def cut(x, y):
            return all_of_them.slices((x, y))

        spec = tf.TensorSpec([rows if static else None, 2], tf.float64)
        labels = tf.TensorSpec([rows if static else None], tf.float64)
        found = tf.function(cut, input_signature=[spec, labels])(x, x[:, 0])
        self.assert_equal(np.concatenate([p[0] for p, _ in found]), x)
        self.assert_equal(np.concatenate([p[1] for p, _ in found]), x[:, 0])
        starts = np.cumsum([0] + [len(p[0]) for p, _ in found[:-1]])
        self.assert_equal([place[0] for _, place in found], starts)
        self.assert_equal([place[1] for _, place in found], [rows] * count)

    def test_row_before(self):
        x = tf.range(5)
        found = SomeReplicas((0, 1), 2).slices(x, before=True)
        self.assert_equal(found[0][0], [4, 0, 1])
        self.assert_equal(found[1][0], [1, 2, 3, 4])

    def test_shards_are_the_rows_of_slices(self):
        rows, batch = 23, 7
        for number in range(3):
            own = SomeReplicas((number,), 3)
            own.strategy = tf.distribute.OneDeviceStrategy("cpu:0")
            met = [
                own.slices(tf.range(s, min(s + batch, rows)))[0][0]
                for s in range(0, rows, batch)
            ]
            self.assert_equal(
                own.shards(rows, batch).rows[0], np.concatenate(met)
            )


class TwoDevicesTest(parameterized.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        program = [sys.executable, "-m", "tests.support.two_devices"]
        output = subprocess.run(
            program, stdout=subprocess.PIPE, check=True, timeout=300
        ).stdout
        cls.found = json.loads(output)

    @parameterized.parameters(*two_devices.CASES)
    def test_equals_one_device(self, name):
        found = self.found[name]
        single = two_devices.CASES[name].get("dtype") == "float32"
        self.assertEqual(found["names"], [])
        self.assertLess(found["weights"], 1e-3 if single else 1e-10)
        # Keras' own metrics are in float32.
        self.assertLess(found["logs"], 1e-3 if single else 1e-5)
        self.assertEqual(found["codes"], 0)

    def test_two_all_reduces_in_the_graph(self):
        for found, layers in zip(
            self.found["collectives"], (4, 8), strict=True
        ):
            self.assertEqual(found["count"], 2)
            self.assertEqual(found["hidden"], 0)
            weights = 12 * 16 + (layers - 2) * 16 * 16 + 16 * 8
            # Sums of line 14, for four labels and what is kept beside them;
            # residuals and duals; counts and metrics.
            others = 8 * 8 + 8 * (4 + 32) + 2 * layers + 5
            small, large = 8 * (2 * layers + 1), 4 * (weights + others)
            self.assertEqual(found["bytes"], [small, large])

    def test_fit_inside_the_scope_is_refused(self):
        self.assertIn("outside of `strategy.scope()`", self.found["refusal"])


class FindTest(absltest.TestCase):
    def test_no_strategy(self):
        self.assertIsNone(replicas.find())

    def test_other_strategies(self):
        with tf.distribute.OneDeviceStrategy("cpu:0").scope():
            self.assertIsNone(replicas.find())


if __name__ == "__main__":
    absltest.main()
