"""Pictures of a run: what is drawn, read back from the figure."""

import os
import tempfile
from unittest import mock

import matplotlib.image
import numpy as np
from absl.testing import absltest

from tests.support import case
from vdsh_tf.evaluation import plots

EPOCHS, LAYERS = 6, 5


def _residual():
    """Two layers from the start, and the others for the last two epochs."""
    values = np.linspace(2, 1, EPOCHS)[:, None] / np.arange(1, LAYERS + 1)
    values[:4, 1:-1] = 0
    return values


PROGRESS = {
    "objective": np.linspace(0.5, 0.2, EPOCHS),
    "accuracy": np.linspace(0.3, 0.9, EPOCHS),
    "val_map": [np.nan, 0.4, np.nan, 0.7, np.nan, 0.8],
}


class ConvergenceTest(case.TestCase):
    def _figure(self, *arguments, **kwargs):
        with mock.patch.object(plots, "save") as save:
            plots.convergence(*arguments, "x.png", **kwargs)
        return save.call_args[0][0]

    def _panels(self, figure):
        return [axes for axes in figure.axes if axes.get_title()]

    def test_online_shows_the_residual_once_and_progress(self):
        figure = self._figure(_residual(), PROGRESS)
        residual, progress = self._panels(figure)
        self.assertIn("residual", residual.get_title())
        lines = residual.get_lines()[:LAYERS]
        self.assertEqual(
            [len(line.get_xdata()) for line in lines], [6, 2, 2, 2, 6]
        )
        self.assert_close(lines[0].get_ydata(), _residual()[:, 0])
        texts = [t.get_text() for t in progress.get_legend().get_texts()]
        self.assertEqual(texts, ["objective", "accuracy", "validation mAP"])

    def test_epochs_without_evaluation_are_left_out(self):
        figure = self._figure(_residual(), PROGRESS)
        lines = [line for axes in figure.axes for line in axes.get_lines()]
        (found,) = (a for a in lines if a.get_label() == "validation mAP")
        self.assert_equal(found.get_xdata(), [2, 4, 6])

    def test_where_layers_join_is_marked(self):
        for axes in self._panels(self._figure(_residual(), PROGRESS)):
            (text,) = axes.texts
            self.assertEqual(text.get_text().strip(), "5 layers")
            self.assertEqual(text.xy[0], 4.5)

    def test_full_shows_the_dual_too(self):
        figure = self._figure(
            _residual(), {"objective": PROGRESS["objective"]}, dual=_residual()
        )
        titles = [axes.get_title() for axes in self._panels(figure)]
        self.assertLen(titles, 3)
        self.assertIn("dual", titles[1])

    def test_nothing_to_draw_is_said(self):
        figure = self._figure(np.zeros((3, 2)), {"val_map": [np.nan] * 3})
        texts = [t.get_text() for axes in figure.axes for t in axes.texts]
        self.assertEqual(texts, ["zero in every epoch", "nothing measured"])
        self.assertIsNone(figure.axes[1].get_legend())

    def test_written_even_for_one_epoch_and_layer(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.png")
            none = {"objective": [0.3], "val_map": [np.nan]}
            plots.convergence([[0.1]], none, path)
            self.assertEqual(matplotlib.image.imread(path).ndim, 3)


class NeighborsTest(case.TestCase):
    def test_a_query_without_neighbours_says_so(self):
        rows = np.eye(4)
        with mock.patch.object(plots, "save") as save:
            plots.neighbors(
                rows[:2], [rows[:0], rows[:1]], (2, 2, 1), [[], ["a"]], "x.png"
            )
        texts = [
            t.get_text() for a in save.call_args[0][0].axes for t in a.texts
        ]
        self.assertEqual(texts, ["nothing found"])


if __name__ == "__main__":
    absltest.main()
