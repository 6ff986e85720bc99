"""What every shallow method must do, on digits and on several labels."""

import functools
import subprocess
import sys
import unittest

import numpy as np
import threadpoolctl
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import codes
from vdsh_tf.data import datasets
from vdsh_tf.evaluation import metrics
from vdsh_tf.research.baselines import method
from vdsh_tf.research.baselines import registry

BITS = 16
# Cheaper than the papers' settings: digits are few and easy.
SETTINGS = {
    "sdh": {"num_anchors": 300},
    "ksh": {"num_anchors": 150, "iterations": 20},
    "bre": {"landmarks": 20, "sweeps": 1},
    "mlh": {"steps": 1000},
    "fasthash": {"trees": 20},
}
# For what does not depend on how well a method learns.
QUICK = SETTINGS | {"mlh": {"steps": 50}, "fasthash": {"trees": 5}}
# How far mAP must be above LSH's.
MARGINS = {
    "itq": 0.1,
    "cca_itq": 0.3,
    "sdh": 0.45,
    "ksh": 0.45,
    "bre": 0.3,
    "mlh": 0.3,
    "fasthash": 0.45,
}
LABELLED = [name for name in registry.SHALLOW if name not in ("lsh", "itq")]


def setUpModule():
    # Threads cost more than they gain on matrices this small. Only libraries
    # that are loaded already can be limited.
    for name in registry.SHALLOW:
        registry.load(name)
    unittest.enterModuleContext(threadpoolctl.threadpool_limits(1))


def _make(name, bits=BITS, seed=0, settings=SETTINGS):
    return registry.make(name, bits, seed, **settings.get(name, {}))


@functools.cache
def _digits():
    return datasets.load("digits")


@functools.cache
def _fitted(name):
    split = _digits()
    return _make(name).fit(split.train.x, split.train.y)


@functools.cache
def _map(name):
    split = _digits()
    fitted = _fitted(name)
    return metrics.evaluate(
        fitted.encode(split.query.x),
        split.query.y,
        fitted.encode(split.train.x),
        split.train.y,
        BITS,
    )["map"]


def _several_labels(num=240, dim=20, classes=4):
    rng = np.random.default_rng(0)
    y = (rng.random((num, classes)) < 0.35).astype(np.uint8)
    y[:3] = 0
    centres = rng.normal(size=(classes, dim))
    x = y @ centres + 0.3 * rng.normal(size=(num, dim))
    # As many inputs again that are noise, and large.
    x = np.hstack([x, 2 * rng.normal(size=(num, dim))])
    return x.astype(np.float32), y


class EveryMethodTest(case.TestCase):
    @parameterized.parameters(*MARGINS)
    def test_beats_lsh(self, name):
        self.assertGreater(_map(name), _map("lsh") + MARGINS[name])

    @parameterized.parameters(*MARGINS)
    def test_objective_falls(self, name):
        objective = _fitted(name).objective
        self.assertGreater(len(objective), 1)
        self.assertTrue(np.all(np.isfinite(objective)))
        self.assertLess(objective[-1], objective[0])
        if name != "mlh":  # Its values are means over different pairs.
            rises = np.diff(objective) / objective[0]
            self.assertLess(rises.max(), 1e-6)

    @parameterized.parameters(*registry.SHALLOW)
    def test_codes_are_signs_and_do_not_change(self, name):
        x = _digits().query.x
        fitted = _fitted(name)
        first = fitted.encode(x)
        self.assertEqual(first.shape, (len(x), BITS // 8))
        self.assert_equal(first, fitted.encode(x))
        self.assert_equal(codes.unpack(first, BITS), fitted.project(x) > 0)
        self.assert_equal(fitted.encode(x[5:9]), first[5:9])

    @parameterized.parameters(*registry.SHALLOW)
    def test_seed_decides(self, name):
        x, y = _digits().train.x[:400], _digits().train.y[:400]
        one, same, other = (
            _make(name, 8, seed, QUICK).fit(x, y).encode(x)
            for seed in (3, 3, 4)
        )
        self.assert_equal(one, same)
        self.assertTrue(np.any(one != other))

    @parameterized.parameters(*LABELLED)
    def test_several_labels(self, name):
        x, y = _several_labels()
        train, query = slice(0, 180), slice(180, None)
        result = {}
        for each in ("lsh", name):
            fitted = _make(each).fit(x[train], y[train])
            result[each] = metrics.evaluate(
                fitted.encode(x[query]),
                y[query],
                fitted.encode(x[train]),
                y[train],
                BITS,
            )["map"]
        self.assertGreater(result[name], result["lsh"])

    @parameterized.parameters("ksh", "bre", "mlh", "fasthash")
    def test_trains_on_a_subset(self, name):
        self.assertEqual(registry.load(name).subset, 5000)

    @parameterized.parameters("cca_itq", "itq", "sdh", "ksh")
    def test_more_bits_than_inputs(self, name):
        x, y = _several_labels(dim=6)
        fitted = _make(name, 24).fit(x, y)
        self.assertEqual(fitted.encode(x).shape, (len(x), 3))


class SubsetTest(case.TestCase):
    def test_only_the_subset_is_seen(self):
        x, y = _digits().train.x, _digits().train.y
        rows = method.draw_subset(y, 500, 0)
        for name in ("ksh", "bre", "mlh", "fasthash"):
            whole, part = (_make(name, 8, 0, QUICK) for _ in range(2))
            whole.subset = part.subset = 500
            with self.subTest(name):
                self.assert_equal(
                    whole.fit(x, y).encode(x),
                    part.fit(x[rows], y[rows]).encode(x),
                )


class RegistryTest(case.TestCase):
    def test_unknown_name_lists_the_names(self):
        with self.assertRaisesRegex(ValueError, "lsh, itq, .*drsch.*'svm'"):
            registry.make("svm", 32)

    def test_passes_bits_seed_and_settings(self):
        made = registry.make("sdh", 24, seed=7, num_anchors=50)
        self.assertEqual((made.bits, made.seed, made.num_anchors), (24, 7, 50))

    @parameterized.parameters(*registry.SHALLOW)
    def test_says_what_it_is(self, name):
        made = registry.load(name)
        self.assertTrue(issubclass(made, method.Method))
        self.assertFalse(made.images)
        self.assertRegex(made.reference, r"\d{4}$")
        self.assertTrue(made.title)

    def test_methods_are_imported_when_made(self):
        program = (
            "import sys; from vdsh_tf.research.baselines import registry; "
            "print([m for m in registry.METHODS.values() "
            "if m.rpartition('.')[0] in sys.modules])"
        )
        run = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
        )
        self.assertEqual(run.stdout.strip().splitlines()[-1], "[]")


if __name__ == "__main__":
    absltest.main()
