"""VDSH, by ADMM and by back-propagation, behind the common interface."""

import os
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import codes
from vdsh_tf.data import datasets
from vdsh_tf.evaluation import metrics
from vdsh_tf.recipes import Stages
from vdsh_tf.research.baselines import backprop
from vdsh_tf.research.baselines import backprop_method
from vdsh_tf.research.baselines import vdsh_method
from vdsh_tf.training import runs
from vdsh_tf.training import trainer
from vdsh_tf.training.config import TrainingConfig

BITS = 16
MARGIN_OVER_LSH = 0.35
CONFIG = TrainingConfig().replace(
    normalization="unit",
    stages=Stages.parse("3:8:5e-3,4:4:2e-3"),
    batch_size=64,
    width=48,
    noise=0.1,
    weight_decay=0.1,
)


def _vdsh(seed=0, config=CONFIG, bits=BITS):
    return vdsh_method.VDSHMethod(bits, seed, config)


def _backprop(seed=0, bits=BITS, **kwargs):
    settings = {
        "layers": 4,
        "width": 48,
        "epochs": 12,
        "learning_rate": 3e-3,
        "batch_size": 64,
    }
    return backprop_method.BackpropVDSH(bits, seed, **{**settings, **kwargs})


KINDS = {"vdsh": _vdsh, "backprop": _backprop}


class MethodTest(case.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.split = datasets.load("digits")
        cls.train, cls.query = cls.split.train, cls.split.query
        cls.fitted = {
            name: kind().fit(cls.train.x, cls.train.y)
            for name, kind in KINDS.items()
        }

    def _map(self, query, database):
        counts = metrics.count_by_distance(
            query, self.query.y, database, self.train.y
        )
        return metrics.mean_average_precision(counts)

    @parameterized.parameters(*KINDS)
    def test_beats_random_hyperplanes(self, name):
        mean = self.train.x.mean(axis=0)
        planes = np.random.default_rng(0).normal(size=(64, BITS))
        lsh = self._map(
            *(
                codes.pack((part.x - mean) @ planes > 0)
                for part in (self.query, self.train)
            )
        )
        encode = self.fitted[name].encode
        got = self._map(encode(self.query.x), encode(self.train.x))
        self.assertGreater(got, lsh + MARGIN_OVER_LSH)

    @parameterized.parameters(*KINDS)
    def test_objective_falls(self, name):
        objective = self.fitted[name].objective
        self.assertLen(objective, 12)
        self.assertLess(objective[-1], objective[0] / 3)

    def test_same_seed_same_codes(self):
        first = self.fitted["backprop"].encode(self.query.x)
        again, other = (
            _backprop(seed).fit(self.train.x, self.train.y) for seed in (0, 1)
        )
        self.assert_equal(first, again.encode(self.query.x))
        self.assertFalse(np.array_equal(first, other.encode(self.query.x)))

    @parameterized.parameters(*KINDS)
    def test_rows_need_no_unit_length(self, name):
        encode = self.fitted[name].encode
        self.assert_equal(encode(self.query.x), encode(4 * self.query.x))

    @parameterized.parameters(*KINDS)
    def test_several_labels_of_a_row(self, name):
        y = np.eye(10, dtype=np.float32)[self.train.y]
        y[:, 0] = np.arange(len(y)) % 2
        if name == "vdsh":
            config = CONFIG.replace(stages=Stages.parse("3:2:5e-3"), width=8)
            fitted = _vdsh(config=config)
        else:
            fitted = _backprop(epochs=1)
        got = fitted.fit(self.train.x, y).encode(self.query.x)
        self.assertEqual(got.shape, (len(self.query), BITS // 8))

    @parameterized.parameters(*KINDS)
    def test_fit_comes_first(self, name):
        with self.assertRaisesRegex(ValueError, "`fit` must come"):
            KINDS[name]().encode(self.query.x)

    def test_trains_as_a_run_does(self):
        """Hence the same seed gives the same codes, too."""
        config = vdsh_method.VDSHMethod(BITS, 0, CONFIG).config
        with tempfile.TemporaryDirectory() as folder:
            directory = runs.RunDirectory.create(
                os.path.join(folder, "run"), config
            )
            trainer.train(directory, self.split, verbose=0)
            model = runs.load_model(directory.file("model.keras"))
            want = model.encode(self.query.x)
        self.assert_equal(self.fitted["vdsh"].encode(self.query.x), want)

    def test_full_schedule(self):
        config = TrainingConfig().replace(
            stages=Stages.parse("2:3:1e-3"), schedule="full", width=16
        )
        fitted = _vdsh(config=config)
        fitted.fit(self.train.x[:200], self.train.y[:200])
        self.assertLen(fitted.objective, 3)

    def test_preset_by_name(self):
        config = vdsh_method.VDSHMethod(24, 5, "digits").config
        self.assertEqual((config.network.bits, config.seed), (24, 5))
        self.assertEqual(config.network.width, 128)
        with self.assertRaisesRegex(ValueError, "`preset` must be one of"):
            vdsh_method.VDSHMethod(24, 5, "none")

    def test_backprop_codes_are_the_networks(self):
        fitted = self.fitted["backprop"]
        rows = np.asarray(datasets.unit_rows(self.query.x))
        network = backprop.code_network(fitted.network)
        want = backprop.encode(network, rows)
        self.assert_equal(fitted.encode(self.query.x), want)


if __name__ == "__main__":
    absltest.main()
