"""The report: its numbers, its missing points, its parts."""

import csv
import dataclasses
import os
import tempfile

import numpy as np
from absl.testing import absltest

from tests.research.reproduction import digits_case
from tests.support import case
from vdsh_tf.research.reproduction import few_shot
from vdsh_tf.research.reproduction import figures
from vdsh_tf.research.reproduction import methods
from vdsh_tf.research.reproduction import points
from vdsh_tf.research.reproduction import published
from vdsh_tf.research.reproduction import report
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction import style
from vdsh_tf.research.reproduction import tasks


class ReportTest(digits_case.StoreCase):
    def read(self, name):
        with open(os.path.join(self.root, name)) as f:
            return f.read()

    def test_report_and_csv_hold_the_numbers(self):
        self.run_plan()
        report.write(self.store, [digits_case.TINY], "smoke")
        rows = list(csv.DictReader(self.read("tiny.csv").splitlines()))
        self.assertEqual([r["method"] for r in rows], ["ITQ", "LSH"])
        want = self.store.read("tiny", "digits-lsh-16").result
        self.assertEqual(float(rows[1]["mAP, 16"]), want["map"])
        self.assertEqual(float(rows[1]["R@r2, 16"]), want["recall_r2"])
        self.assertEqual(rows[0]["mAP, 16"], "")
        text = self.read("REPORT.md")
        self.assertIn("3 of 3", text)
        self.assertIn(f"{want['map']:.3f}".lstrip("0"), text)
        self.assertIn("5,000 rows", text)
        self.assertNotIn("missing", text.split("## Summary")[1])
        for ending, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
            with open(os.path.join(self.root, f"tiny.{ending}"), "rb") as f:
                self.assertStartsWith(f.read(5), start)

    def test_deleted_point_is_missing(self):
        self.run_plan()
        report.write(self.store, [digits_case.TINY], "smoke")
        before = self.read("REPORT.md")
        os.remove(self.store.path("tiny", "digits-lsh-16"))
        report.write(self.store, [digits_case.TINY], "smoke")
        text = self.read("REPORT.md")
        self.assertIn("2 of 3, missing 1", text)
        self.assertIn("**missing: 1 points** (`tiny/digits-lsh-16`)", text)
        lsh = next(x for x in text.splitlines() if x.startswith("| LSH"))
        self.assertEqual(lsh.count("| - "), 4)
        self.assertNotEqual(before, text)
        self.run_plan()
        self.assertEqual(self.computed, ["digits-lsh-16"])

    def test_point_with_other_settings_is_missing(self):
        plan = digits_case.digits_plan()
        plan[0] = dataclasses.replace(
            plan[0], settings={**plan[0].settings, "rows": 50}
        )
        self.run_plan(plan)
        report.write(self.store, [digits_case.TINY], "smoke")
        self.assertIn("2 of 3, missing 1", self.read("REPORT.md"))


class PartsTest(case.TestCase):
    def test_few_shot_keeps_the_database_whole(self):
        split = sources.Library().split("digits")
        few = few_shot.few(split, 10, seed=1)
        self.assertLen(few.train, 100)
        self.assertLen(few.database, len(split.database))
        self.assertEqual(np.bincount(few.train.y).tolist(), [10] * 10)

    def test_rows_without_features_are_left_out(self):
        x = np.ones((60, 3))
        x[7] = 0
        folder = self.enter_context(tempfile.TemporaryDirectory())
        path = os.path.join(folder, "rows.npz")
        np.savez(path, features=x, labels=np.arange(60) % 3)
        library = sources.Library(paths={"corel16k001": path})
        with self.assertWarnsRegex(UserWarning, "1 rows of .* all zero"):
            split = library.split("corel16k001")
        self.assertEqual(split.name, "corel16k001")
        self.assertLen(split.query, 15)
        self.assertLen(split.database, 44)

    def test_published_numbers_stand_beside_own(self):
        curves = {"ksh": {32: {"map": 0.8}, 64: {"map": 0.9}}, "bre": {}}
        table = published.table(curves, "mnist")
        rows = {row[0]: row[1:] for row in table.rows}
        self.assert_close(rows["KSH"], [0.897, 0.8, -0.097])
        self.assertEqual(rows["BRE"], [0.613, None, None])

    def test_one_colour_per_method(self):
        self.assertContainsSubset(methods.ALL, style.COLORS)
        self.assertLen(set(style.COLORS.values()), len(style.COLORS))
        self.assertEqual(list(style.COLORS), list(style.TITLES))

    def test_plans_have_no_two_tasks_at_one_place(self):
        for budget in tasks.BUDGETS:
            plan = [t for f in figures.FIGURES.values() for t in f.plan(budget)]
            by_place = {}
            for task in plan:
                first = by_place.setdefault(task.place, task)
                self.assertEqual(first.settings, task.settings)
                points.plain(task.settings)


if __name__ == "__main__":
    absltest.main()
