"""Points on disk: resumed, recomputed when damaged, kept when all fails."""

import dataclasses
import json
import os
import resource

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.research.reproduction import digits_case
from vdsh_tf.research.reproduction import few_shot
from vdsh_tf.research.reproduction import methods
from vdsh_tf.research.reproduction import points
from vdsh_tf.research.reproduction import tasks

# The settings of VDSH on digits as 0.1.0 wrote them.
VDSH_0_1 = {
    "validation_per_class": 0,
    "stages": [
        {"layers": 4, "epochs": 1, "learning_rate": 0.002},
        {"layers": 6, "epochs": 1, "learning_rate": 0.001},
    ],
    "warmup": 0.1,
    "batch_size": 64,
    "center": False,
    "noise": 0.3,
    "dropout": 0.0,
    "weight_decay": 0.1,
    "jit_compile": False,
    "width": 64,
    "bits": 8,
    "initializer": "looks_linear",
    "schedule": "online",
    "seed": 0,
    "beta": None,
    "keep_error": None,
    "input_metric": None,
}


class ResumeTest(digits_case.StoreCase):
    def test_finished_points_are_not_computed_again(self):
        self.assertEqual(self.run_plan(), [])
        self.assertEqual(
            self.computed, ["digits-lsh-8", "digits-lsh-16", "digits-itq-8"]
        )
        self.assertRegex(
            self.said[1],
            r"^\[2/3\] tiny digits lsh 16 bits: mAP \.\d{3}, "
            r"P@r2 \.\d{3}, \d+ s \(\d+\.\d min spent, about \d+ min left\)",
        )
        self.assertEqual(self.run_plan(), [])
        self.assertEqual(self.computed, [])
        self.assertEqual(self.said, ["3 of 3 points were finished before."])

    def test_shared_points_are_computed_once(self):
        plan = digits_case.digits_plan()
        self.run_plan(plan + plan[::-1])
        self.assertLen(self.computed, 3)

    def test_interrupted_run_resumes(self):
        plan = digits_case.digits_plan()

        def interrupt(context):
            raise KeyboardInterrupt

        broken = [plan[0], dataclasses.replace(plan[1], compute=interrupt)]
        with self.assertRaises(KeyboardInterrupt):
            self.run_plan(broken)
        self.run_plan(plan)
        self.assertEqual(self.computed, ["digits-lsh-16", "digits-itq-8"])

    def test_other_settings_are_computed_anew(self):
        self.run_plan()
        plan = digits_case.digits_plan()
        plan[1] = dataclasses.replace(
            plan[1], settings={**plan[1].settings, "seed": 1}
        )
        self.run_plan(plan)
        self.assertEqual(self.computed, ["digits-lsh-16"])

    def test_point_of_version_0_1_is_finished(self):
        task = methods.task("tiny", "digits", "vdsh", 8, "smoke")
        path = self.store.path(*task.place)
        self.store.write(*task.place, task.settings, {"map": 0.5}, 1.0)
        with open(path) as f:
            data = json.load(f)
        del data["settings"]["config"]
        data["settings"]["run"] = VDSH_0_1
        with open(path, "w") as f:
            json.dump(data, f)
        self.assertEqual(self.run_plan([task]), [])
        self.assertEqual(self.computed, [])
        data["settings"]["run"] = {**VDSH_0_1, "keep_error": True}
        with open(path, "w") as f:
            json.dump(data, f)
        self.assertIsNone(self.store.finished(*task.place, task.settings))

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


class FailureTest(digits_case.StoreCase):
    def test_full_disk_loses_no_finished_point(self):
        plan = digits_case.digits_plan()
        self.run_plan(plan[:1])
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
        try:
            with self.assertRaisesRegex(
                points.StorageError,
                "digits-lsh-16.json could not be written: "
                "File too large.*finished before are safe.*`root`",
            ):
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
        plan = digits_case.digits_plan()

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
        plan = digits_case.digits_plan()[:1]
        plan[0] = dataclasses.replace(
            plan[0], compute=lambda context: tasks.Outcome({"map": np.nan})
        )
        with self.assertLogs("absl", "ERROR"):
            failures = self.run_plan(plan)
        self.assertLen(failures, 1)
        self.assertIsNone(self.store.read("tiny", "digits-lsh-8"))

    def test_missing_data_says_which_and_how(self):
        plan = few_shot.plan("smoke")
        failures = self.run_plan(plan + digits_case.digits_plan())
        self.assertLen(failures, len(plan))
        self.assertRegex(
            failures[0].reason,
            "cifar10_cnn128.npz.*must exist.*`features_dir`.*VDSH_FEATURES",
        )
        self.assertLen([s for s in self.said if "is missing" in s], 1)
        self.assertIsNotNone(self.store.read("tiny", "digits-itq-8"))


if __name__ == "__main__":
    absltest.main()
