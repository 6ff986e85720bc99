"""Data and numbers of a run: the same later, or refused."""

import dataclasses
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.data import datasets
from vdsh_tf.data.protocols import Part
from vdsh_tf.recipes import Stages
from vdsh_tf.training import provenance
from vdsh_tf.training import runs
from vdsh_tf.training.config import TrainingConfig


def _split(seed=0, **parts):
    rng = np.random.default_rng(seed)

    def part(n):
        return Part(rng.random((n, 3), np.float32), np.arange(n) % 2)

    split = datasets.Split("npz", part(4), part(8), part(0), 2)
    return dataclasses.replace(split, **parts)


def _changed(part, rows=False, label=False):
    x, y = part.x.copy(), part.y.copy()
    if rows:
        x = x[::-1]
    else:
        x[0, 0] += 0 if label else 1e-3
    y[0] += label
    return Part(x, y)


class ProvenanceTest(case.TestCase):
    def setUp(self):
        super().setUp()
        root = self.enter_context(tempfile.TemporaryDirectory())
        self.directory = runs.RunDirectory.create(f"{root}/a", TrainingConfig())

    @parameterized.parameters("8", 8, [[8, 8]], [[8, 8, -1]], [["8", 8, 1]])
    def test_image_shape_that_is_none(self, shape):
        self.directory.write_json("data.json", {"image_shape": shape})
        with self.assertRaisesRegex(ValueError, "must have three sizes"):
            _ = self.directory.image_shape

    def test_stages_must_rise(self):
        falling = Stages.parse("8:1:1e-3,4:1:1e-3")
        with self.assertRaisesRegex(ValueError, "of rising depth"):
            TrainingConfig().replace(stages=falling)

    def test_same_data(self):
        split = _split()
        self.directory.write_json("data.json", provenance.describe(split))
        provenance.check_data(self.directory, _split())
        # Not how it lies in memory, but what it says.
        x = np.asfortranarray(split.train.x)
        same = _split(train=Part(x, split.train.y))
        provenance.check_data(self.directory, same)

    @parameterized.product(
        name=("train", "query"),
        change=({}, {"rows": True}, {"label": True}),
    )
    def test_other_data(self, name, change):
        split = _split()
        self.directory.write_json("data.json", provenance.describe(split))
        other = _split(**{name: _changed(getattr(split, name), **change)})
        with self.assertRaisesRegex(ValueError, "/a was trained on.*--path"):
            provenance.check_data(self.directory, other)

    def test_parts_change_places(self):
        split = _split()
        other = dataclasses.replace(split, unseen=split.train)
        moved = dataclasses.replace(split, trained_query=split.train)
        found = map(provenance.digest, (split, other, moved))
        self.assertLen(set(found), 3)

    def test_older_runs_pass(self):
        provenance.check_data(self.directory, _split())
        known = provenance.describe(_split())
        del known["sha256"]
        self.directory.write_json("data.json", known)
        provenance.check_data(self.directory, _split(1))

    @parameterized.parameters(
        ({"map": 0.5},),
        ({"map": 0.5005},),
        ({"map": 0.5, "new": 3},),
        ({"map": 0.5, "empty": float("nan"), "trained": {"map": 0.9}},),
    )
    def test_same_numbers(self, result):
        provenance.check_metrics(self.directory, {"map": 0.1})
        stored = {"map": 0.5, "empty": float("nan"), "trained": {"map": 0.9}}
        self.directory.write_json("metrics.json", stored)
        provenance.check_metrics(self.directory, result)

    @parameterized.parameters(
        ({"map": 0.87}, "map was 0.5, is 0.87"),
        ({"map": float("nan")}, "map was 0.5, is nan"),
        ({"trained": {"map": 0.5}}, "map was 0.9, is 0.5"),
        ({"protocol": "x"}, "protocol was paper, is x"),
    )
    def test_other_numbers(self, result, pattern):
        stored = {"map": 0.5, "trained": {"map": 0.9}, "protocol": "paper"}
        self.directory.write_json("metrics.json", stored)
        with self.assertRaisesRegex(ValueError, pattern):
            provenance.check_metrics(self.directory, result)


if __name__ == "__main__":
    absltest.main()
