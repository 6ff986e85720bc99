"""A classifier's answer as code."""

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import codes
from vdsh_tf.data import datasets
from vdsh_tf.evaluation import splits
from vdsh_tf.research.baselines import registry

QUICK = {"class_network": {"layers": 2, "width": 64, "epochs": 150}}


class ClassIdTest(case.TestCase):
    @parameterized.parameters(*registry.CLASS_ID)
    def test_one_code_per_class(self, name):
        split = datasets.load("digits", train_per_class=60)
        fitted = registry.make(name, 16, **QUICK.get(name, {}))
        fitted.fit(split.train.x, split.train.y)
        result, _ = splits.evaluate(fitted.encode, split, 16)
        self.assertLessEqual(result["distinct_codes"], 10)
        self.assertGreater(result["map"], 0.75)
        self.assertGreater(result["trained"]["map"], result["map"] - 0.02)

    def test_bits_are_the_class(self):
        split = datasets.load("digits")
        one_hot = registry.make("class_id", 12)
        number = registry.make("class_number", 4)
        x, y = split.train.x, split.train.y
        bits = codes.unpack(one_hot.fit(x, y).encode(x), 12)
        self.assert_equal(bits.sum(axis=1), np.ones(len(x)))
        self.assertGreater(np.mean(bits[:, :10].argmax(axis=1) == y), 0.99)
        bits = codes.unpack(number.fit(x, y).encode(x), 4)
        self.assertGreater(np.mean(bits @ [1, 2, 4, 8] == y), 0.99)

    @parameterized.parameters("class_id", "class_number")
    def test_a_small_ball_holds_one_class(self, name):
        split = datasets.load("digits")
        x, y = split.train.x, split.train.y
        result = {}
        for bits in (10, 64):
            fitted = registry.make(name, bits, steps=500).fit(x, y)
            result[bits], _ = splits.evaluate(fitted.encode, split, bits)
        self.assert_close(result[10]["map"], result[64]["map"], atol=1e-12)
        self.assertGreater(result[64]["precision_r2"], 0.9)
        self.assertLess(result[10]["precision_r2"], 0.5)

    def test_several_labels(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(300, 6))
        y = (x[:, :3] > 0).astype(int)
        fitted = registry.make("class_id", 8).fit(x, y)
        bits = codes.unpack(fitted.encode(x), 8)
        self.assert_equal(bits[:, 0:6:2], bits[:, 1:6:2])
        bits = bits[:, 0:6:2]
        several = y.sum(axis=1) > 1
        self.assertGreater(np.mean(bits[several] == y[several]), 0.97)

    @parameterized.parameters(("class_id", 9), ("class_number", 3))
    def test_too_few_bits(self, name, bits):
        split = datasets.load("digits")
        with self.assertRaisesRegex(ValueError, f"bits={bits}"):
            registry.make(name, bits).fit(split.train.x, split.train.y)


if __name__ == "__main__":
    absltest.main()
