"""The paper's experiments: points on disk, the report, the tool."""

import contextlib
import csv
import dataclasses
import json
import os
import resource
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support.tool_runner import run_tool
from vdsh_tf.research.reproduction import few_shot
from vdsh_tf.research.reproduction import figures
from vdsh_tf.research.reproduction import lines
from vdsh_tf.research.reproduction import methods
from vdsh_tf.research.reproduction import points
from vdsh_tf.research.reproduction import published
from vdsh_tf.research.reproduction import report
from vdsh_tf.research.reproduction import runner
from vdsh_tf.research.reproduction import sections
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction import style
from vdsh_tf.research.reproduction import tasks


def digits_plan(budget="smoke"):
    return [
        methods.task("tiny", "digits", name, bits, budget, name == "itq")
        for name, bits in (("lsh", 8), ("lsh", 16), ("itq", 8))
    ]


def show_digits(results, budget, folder):
    curves = lines.read(results, "tiny", digits_plan(budget))
    return sections.Section(
        "tiny", "nothing", "digits",
        [(lines.draw(curves, "digits", folder, "tiny"), "digits")],
        [lines.table(curves, "digits", "tiny", methods.SUBSET_NOTE)], [],
    )  # fmt: skip


TINY = tasks.Figure("tiny", "digits", digits_plan, show_digits)


class StoreCase(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.store = points.PointStore(self.root)
        self.context = tasks.Context(self.store, sources.Library())
        self.computed = []
        self.said = []

    def counted(self, plan):
        """The same tasks, which also note that they ran."""

        def watch(task):
            def compute(context):
                self.computed.append(task.key)
                return task.compute(context)

            return dataclasses.replace(task, compute=compute)

        return [watch(task) for task in plan]

    def run_plan(self, plan=None):
        self.computed.clear()
        self.said.clear()
        plan = digits_plan() if plan is None else plan
        return runner.run(self.counted(plan), self.context, self.said.append)


class ResumeTest(StoreCase):
    def test_finished_points_are_not_computed_again(self):
        self.assertEqual(self.run_plan(), [])
        self.assertEqual(
            self.computed, ["digits-lsh-8", "digits-lsh-16", "digits-itq-8"]
        )
        self.assertRegex(
            self.said[1], r"^\[2/3\] tiny digits lsh 16 bits: mAP \.\d{3}, "
            r"P@r2 \.\d{3}, \d+ s \(\d+\.\d min spent, about \d+ min left\)",
        )  # fmt: skip
        self.assertEqual(self.run_plan(), [])
        self.assertEqual(self.computed, [])
        self.assertEqual(self.said, ["3 of 3 points were finished before."])

    def test_shared_points_are_computed_once(self):
        self.run_plan(digits_plan() + digits_plan()[::-1])
        self.assertLen(self.computed, 3)

    def test_interrupted_run_goes_on(self):
        plan = digits_plan()

        def interrupt(context):
            raise KeyboardInterrupt

        broken = [plan[0], dataclasses.replace(plan[1], compute=interrupt)]
        with self.assertRaises(KeyboardInterrupt):
            self.run_plan(broken)
        self.run_plan(plan)
        self.assertEqual(self.computed, ["digits-lsh-16", "digits-itq-8"])

    def test_other_settings_are_computed_anew(self):
        self.run_plan()
        plan = digits_plan()
        plan[1] = dataclasses.replace(
            plan[1], settings={**plan[1].settings, "seed": 1}
        )
        self.run_plan(plan)
        self.assertEqual(self.computed, ["digits-lsh-16"])

    def test_point_says_where_it_comes_from(self):
        self.run_plan()
        with open(self.store.path("tiny", "digits-itq-8")) as f:
            data = json.load(f)
        self.assertSameElements(
            data["versions"], ["vdsh_tf", "tensorflow", "keras", "numpy"]
        )
        self.assertRegex(data["date"], r"^\d{4}-\d\d-\d\d \d\d:\d\d$")
        self.assertGreater(data["seconds"], 0)
        self.assertEqual(data["settings"]["method"], "itq")
        self.assertContainsSubset(
            ["map", "precision_r0", "recall_r1", "precision_r2", "trained_on"],
            data["result"],
        )
        kept = self.store.arrays("tiny", "digits-itq-8")
        self.assertEqual(kept["codes"].shape, (200, 1))

    @parameterized.parameters(
        "", "{", "{}", "[]", "null", '{"figure": "tiny"}', "half"
    )
    def test_damaged_point_is_computed_anew(self, damage):
        self.run_plan()
        path = self.store.path("tiny", "digits-lsh-16")
        with open(path) as f:
            whole = f.read()
        with open(path, "w") as f:
            f.write(whole[: len(whole) // 2] if damage == "half" else damage)
        with self.assertLogs("absl", "WARNING") as logs:
            self.run_plan()
        self.assertRegex(logs.output[0], "digits-lsh-16.json is damaged")
        self.assertEqual(self.computed, ["digits-lsh-16"])
        with open(path) as f:
            again = json.load(f)
        want = json.loads(whole)
        self.assertEqual(again["result"]["map"], want["result"]["map"])

    def test_damaged_codes_are_computed_anew(self):
        self.run_plan()
        path = self.store.path("tiny", "digits-itq-8", "npz")
        with open(path, "r+b") as f:
            f.truncate(100)
        with self.assertLogs("absl", "WARNING") as logs:
            self.run_plan()
        self.assertRegex(logs.output[0], "digits-itq-8.npz is missing or dam")
        self.assertEqual(self.computed, ["digits-itq-8"])


class FailureTest(StoreCase):
    def test_full_disk_loses_no_finished_point(self):
        plan = digits_plan()
        self.run_plan(plan[:1])
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
        try:
            with self.assertRaisesRegex(
                points.StorageError, "digits-lsh-16.json could not be written: "
                "File too large.*finished before are safe.*--out",
            ):  # fmt: skip
                self.run_plan(plan)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.assertEqual(
            os.listdir(os.path.join(self.root, "points", "tiny")),
            ["digits-lsh-8.json"],
        )
        self.run_plan(plan)
        self.assertEqual(self.computed, ["digits-lsh-16", "digits-itq-8"])

    def test_one_failing_point_does_not_end_the_run(self):
        plan = digits_plan()

        def fail(context):
            raise ZeroDivisionError("no such luck")

        plan[1] = dataclasses.replace(plan[1], compute=fail)
        with self.assertLogs("absl", "ERROR"):
            failures = self.run_plan(plan)
        self.assertLen(failures, 1)
        self.assertEqual(failures[0].title, "tiny digits lsh 16 bits")
        self.assertIn("no such luck", failures[0].reason)
        self.assertIsNotNone(self.store.read("tiny", "digits-itq-8"))

    def test_result_that_is_not_a_number_is_not_kept(self):
        plan = digits_plan()[:1]
        plan[0] = dataclasses.replace(
            plan[0], compute=lambda context: tasks.Outcome({"map": np.nan})
        )
        with self.assertLogs("absl", "ERROR"):
            failures = self.run_plan(plan)
        self.assertLen(failures, 1)
        self.assertIsNone(self.store.read("tiny", "digits-lsh-8"))

    def test_missing_data_says_which_and_how(self):
        plan = few_shot.plan("smoke")
        failures = self.run_plan(plan + digits_plan())
        self.assertLen(failures, len(plan))
        self.assertRegex(
            failures[0].reason,
            "cifar10_cnn128.npz.*must exist.*--features_dir.*VDSH_FEATURES",
        )
        self.assertLen([s for s in self.said if "is missing" in s], 1)
        self.assertIsNotNone(self.store.read("tiny", "digits-itq-8"))


class ReportTest(StoreCase):
    def read(self, name):
        with open(os.path.join(self.root, name)) as f:
            return f.read()

    def test_report_and_csv_hold_the_numbers(self):
        self.run_plan()
        report.write(self.store, [TINY], "smoke")
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

    def test_deleted_point_is_a_hole(self):
        self.run_plan()
        report.write(self.store, [TINY], "smoke")
        before = self.read("REPORT.md")
        os.remove(self.store.path("tiny", "digits-lsh-16"))
        report.write(self.store, [TINY], "smoke")
        text = self.read("REPORT.md")
        self.assertIn("2 of 3, missing 1", text)
        self.assertIn("**missing: 1 points** (`tiny/digits-lsh-16`)", text)
        lsh = next(x for x in text.splitlines() if x.startswith("| LSH"))
        self.assertEqual(lsh.count("| - "), 4)
        self.assertNotEqual(before, text)
        self.run_plan()
        self.assertEqual(self.computed, ["digits-lsh-16"])

    def test_point_with_other_settings_is_a_hole(self):
        plan = digits_plan()
        plan[0] = dataclasses.replace(
            plan[0], settings={**plan[0].settings, "rows": 50}
        )
        self.run_plan(plan)
        report.write(self.store, [TINY], "smoke")
        self.assertIn("2 of 3, missing 1", self.read("REPORT.md"))


class ToolTest(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.enter_context(contextlib.chdir(folder.name))

    @parameterized.parameters(
        (("--figure=speed",), "one of convergence, .*backprop.*'speed'"),
        (("--all", "--budget=tiny"), "`budget` must be one of.*'tiny'"),
        ((), "--figure=NAME, --all or --report. Figures: convergence"),
    )
    def test_bad_flags(self, flags, pattern):
        _, error = run_tool("reproduce", *flags)
        self.assertRegex(error, "^error: .*" + pattern)
        self.assertEqual(os.listdir(), [])

    def test_missing_data_is_listed_and_every_figure_shows_holes(self):
        out, error = run_tool(
            "reproduce", "--figure=few-shot", "--budget=smoke",
            "--features_dir=nowhere",
        )  # fmt: skip
        self.assertRegex(error, "^error: 5 points could not be computed")
        self.assertIn("nowhere/cifar10_cnn128.npz", error)
        self.assertIn("wrote runs/reproduce/REPORT.md", out)
        os.chdir("runs/reproduce")
        with open("REPORT.md") as f:
            text = f.read()
        self.assertNotIn("**agrees**", text)
        self.assertNotIn("**differs**", text)
        for name in figures.FIGURES:
            self.assertRegex(text, rf"\| `{name}` \| 0 of \d+, missing")
        for file in os.listdir():
            if file.endswith((".png", ".csv")) and file != "points.csv":
                self.assertIn(f"({file})", text)


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
        split = sources.labelled_split("mine", x, np.arange(60) % 3, 2, 0)
        self.assertLen(split.query, 6)
        self.assertLen(split.database, 53)

    def test_published_numbers_stand_beside_own(self):
        curves = {"ksh": {32: {"map": 0.8}, 64: {"map": 0.9}}, "bre": {}}
        table = published.table(curves, "mnist")
        rows = {row[0]: row[1:] for row in table.rows}
        self.assert_close(rows["KSH"], [0.897, 0.8, -0.097])
        self.assertEqual(rows["BRE"], [0.613, None, None])

    def test_one_colour_a_method(self):
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
