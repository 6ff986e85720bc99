"""Quality over training time."""

from absl.testing import absltest

from tests.support import case
from vdsh_tf.data import datasets
from vdsh_tf.recipes import Stages
from vdsh_tf.research.benchmarks import quality
from vdsh_tf.research.benchmarks import rivals
from vdsh_tf.training.config import TrainingConfig

CONFIG = TrainingConfig().replace(
    stages=Stages.parse("2:1:5e-3,3:1:2e-3"),
    width=16,
    bits=8,
    batch_size=64,
    normalization="center",
)


class TrainingTest(case.TestCase):
    def test_both_methods_are_measured_after_every_epoch(self):
        split = datasets.load("digits")
        baseline = rivals.parse("looks_linear 2:1:5e-3,3:1:2e-3 noise=0.1")
        for points in (
            quality.run_admm(CONFIG, split),
            quality.run_baseline(baseline, CONFIG, split),
        ):
            self.assertEqual([p.layers for p in points], [2, 3])
            self.assertLess(points[0].seconds, points[1].seconds)
            for point in points:
                self.assertBetween(point.map, 0.1, 1.0)


class MeasureTest(case.TestCase):
    def test_time_to_quality(self):
        points = [
            quality.Point(1.0, 4, 0.5, 0, 0),
            quality.Point(2.0, 4, 0.9, 0, 0),
            quality.Point(3.0, 8, 0.8, 0, 0),
        ]
        self.assertEqual(quality.time_to(points, 0.8), 2.0)
        self.assertIsNone(quality.time_to(points, 0.95))
        self.assertEqual(quality.time_to_stay(points, 0.8), 2.0)
        self.assertEqual(quality.time_to_stay(points, 0.5), 1.0)
        self.assertIsNone(quality.time_to_stay(points, 0.85))
        self.assertEqual(quality.at_time(points, 2.5), points[1])
        self.assertIsNone(quality.at_time(points, 0.5))

    def test_mean_of_runs(self):
        runs = [
            [quality.Point(1.0, 4, 0.5, 0.1, 0.2)],
            [quality.Point(3.0, 4, 0.7, 0.3, 0.4)],
        ]
        (got,) = quality.mean_points(runs)
        self.assert_close(got, [2.0, 4, 0.6, 0.2, 0.3])


if __name__ == "__main__":
    absltest.main()
