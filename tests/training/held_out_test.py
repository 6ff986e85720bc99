"""Held-out rows: by which protocol they search, and what a run reports."""

import os
import tempfile

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.recipes import Stages
from vdsh_tf.training import held_out
from vdsh_tf.training import runs
from vdsh_tf.training import trainer
from vdsh_tf.training.config import TrainingConfig

ITEMS = {"train_per_class": 30}
CLASSES = {"unseen_classes": "7,8,9"}


def _config(**settings):
    stages = Stages.parse("2:2:1e-2")
    small = {"stages": stages, "width": 16, "bits": 8, "noise": 0.1}
    return TrainingConfig().replace(
        **{**small, "validation_per_class": 12, **settings}
    )


def _keys(part):
    return {row.tobytes() for row in part.x}


class HeldOutTest(case.TestCase):
    def _train(self, **settings):
        folder = self.enter_context(tempfile.TemporaryDirectory())
        config = _config(**settings)
        directory = runs.RunDirectory.create(os.path.join(folder, "a"), config)
        return trainer.train(directory, trainer.load_data(config), verbose=0)

    @parameterized.parameters(ITEMS, CLASSES)
    def test_validation_searches_in_rows_not_trained_on(self, **protocol):
        split = trainer.load_data(_config(**protocol))
        query, database = held_out.search(split)
        self.assertEmpty(_keys(database) & _keys(split.train))
        self.assertEmpty(_keys(database) & _keys(query))
        self.assertEmpty(_keys(query) & _keys(split.query))
        self.assertContainsSubset(set(query.y), set(database.y))

    @parameterized.parameters({}, ITEMS, CLASSES)
    def test_run_measured_on_validation_rows(self, **protocol):
        config = _config(on_validation=True, **protocol)
        split = trainer.load_data(config)
        queries = trainer.load_data(_config(**protocol)).query
        self.assertEmpty(_keys(queries) & _keys(split.query))
        self.assertEmpty(split.validation)
        result = self._train(on_validation=True, **protocol)
        self.assertEndsWith(result["protocol"], "-validation")

    def test_classes_to_choose_by_are_neither_trained_on_nor_tested(self):
        split = trainer.load_data(_config(on_validation=True, **CLASSES))
        test = trainer.load_data(_config(**CLASSES))
        self.assertEqual(split.num_classes, 4)
        self.assertEmpty(_keys(split.database) & _keys(split.train))
        self.assertEmpty(_keys(split.database) & _keys(test.database))

    @parameterized.parameters({}, ITEMS, CLASSES)
    def test_report_has_gap_and_share(self, **protocol):
        result = self._train(**protocol)
        gap = result["held_out"]
        self.assertBetween(gap["map"], 0, 1)
        if protocol == ITEMS:
            self.assertEqual(gap["map"], result["map"])
            self.assertEqual(gap["trained_map"], result["trained"]["map"])
        # Unseen classes are another matter than rows that are known by heart.
        self.assertLess(abs(gap["map"] - gap["trained_map"]), 0.2)
        self.assertIn("share of distinct codes", runs.results_table(result))

    def test_no_gap_without_rows(self):
        split = trainer.load_data(_config(validation_per_class=0))
        self.assertIsNone(held_out.gap(None, split, {}))


if __name__ == "__main__":
    absltest.main()
