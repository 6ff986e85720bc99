"""Pictures of the documents: drawn from small numbers, and not empty."""

import os
import tempfile

import matplotlib.image
import numpy as np
from absl.testing import absltest

from tests.support import case
from vdsh_tf.data import datasets
from vdsh_tf.evaluation import metrics
from vdsh_tf.research.benchmarks import plots as benchmark_plots
from vdsh_tf.research.documents import measured
from vdsh_tf.research.documents import pictures
from vdsh_tf.research.reproduction import style


class NearestTest(case.TestCase):
    def test_nearest_first_and_marked_by_label(self):
        split = datasets.load("digits", seed=0)
        rng = np.random.default_rng(0)
        images = np.zeros((len(split.database), 8, 8), np.uint8)
        database = rng.integers(0, 256, (len(images), 2), np.uint8)
        query = rng.integers(0, 256, (len(split.query), 2), np.uint8)
        coded = measured.Coded(split, query, database, images[:200], images)
        rows = measured.nearest(coded, (1, 2, 5, 100))
        self.assertLen(rows, 10)
        for _, hits in rows:
            distances = [hit.distance for hit in hits]
            self.assertEqual(distances, sorted(distances))
        every = metrics.count_by_distance(
            query, split.query.y, database, split.database.y
        )
        least = np.argmax(every.items > 0, axis=1).min()
        self.assertGreaterEqual(
            min(h.distance for _, r in rows for h in r), least
        )


class DrawTest(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "p.png")

    def _assert_drawn(self):
        image = matplotlib.image.imread(self.path)
        self.assertGreater(image[..., :3].std(), 0.01)

    def test_neighbours(self):
        image = np.eye(8, dtype=np.uint8)
        hits = [pictures.Hit(image, 0, True), pictures.Hit(image, 3, False)]
        pictures.neighbour_rows([(image, hits)] * 2, (1, 9), "rank", self.path)
        self._assert_drawn()

    def test_quality(self):
        point = {"seconds": 1.0, "map": 0.5, "recall_r2": 0.1}
        lines = {
            "VDSH, goal class": [point, {**point, "seconds": 2.0}],
            "Adam": [point],
        }
        pictures.quality_over_time(lines, "title", self.path)
        self._assert_drawn()

    def test_figures_with_nothing_in_them_say_so(self):
        pictures.quality_over_time({}, "title", self.path)
        self._assert_drawn()
        benchmark_plots.quality_over_time({"8 layers": {}}, self.path)
        benchmark_plots.cost({}, self.path)
        figure = style.new_figure(4, 3)
        axes = figure.subplots()
        style.save(figure, os.path.dirname(self.path), "empty")
        self.assertIn("no such points", axes.texts[0].get_text())


if __name__ == "__main__":
    absltest.main()
