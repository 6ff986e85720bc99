"""train and evaluate: in this process, and as a person types them."""

import json
import os
import subprocess
import sys

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import tool_runner
from tests.support.tool_runner import run_tool
from vdsh_tf import recipes
from vdsh_tf.recipes import Stages
from vdsh_tf.training import presets
from vdsh_tf.training import runs

SMALL = ("--stages=2:1:1e-3,3:1:1e-3", "--width=8", "--bits=8")


class TrainTest(tool_runner.ToolTestCase):
    def train(self, *flags):
        """What a run that ends well prints, and its messages."""
        code, out, err = tool_runner.run("train", *flags)
        self.assertEqual(code, 0, err)
        return out, err

    def test_as_typed_then_evaluate_gives_the_same_numbers(self):
        tool = tool_runner.ROOT / "tools" / "train.py"
        trained = subprocess.run(
            [sys.executable, tool, *SMALL],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertIn("mAP", trained.stdout)
        self.assertIn("runs/digits-001", trained.stdout)
        first, *rest = trained.stderr.splitlines()
        self.assertEqual(
            first,
            "digits: 1597 to train on, 200 queries; run directory "
            f"{os.path.join('runs', 'digits-001')}",
        )
        # So small a network gives many items one code.
        self.assertLen(rest, 1)
        self.assertRegex(rest[0], r"^1,597 items share \d+ codes")
        with open("runs/digits-001/metrics.json") as f:
            want = json.load(f)
        evaluated, error = run_tool("evaluate", "--json")
        self.assertIsNone(error)
        got = json.loads(evaluated)
        self.assertEqual(got, {key: want[key] for key in got})
        self.assertIn("map", got)
        _, error = run_tool("train", "--run_dir=runs/digits-001")
        self.assertRegex(error, "^error: .*must be new")
        _, error = run_tool("train", "--resume", "--run_dir=runs/digits-001")
        self.assertRegex(error, "^error: .*must be unfinished")

    def test_flags_override_the_preset(self):
        self.train(
            *SMALL,
            "--run_dir=here",
            "--layers=4",
            "--epochs=2",
            "--margin=0",
            "--seed=3",
            "--verbose=0",
        )
        with open("here/config.json") as f:
            config = json.load(f)
        self.assertEqual(
            config["optimization"]["stages"], "2:1:0.001,4:2:0.001"
        )
        self.assertEqual(config["solver"]["margin"], 0.0)
        self.assertEqual(config["seed"], 3)

    def test_full_schedule_says_its_memory(self):
        _, err = self.train(
            "--schedule=full", "--stages=3:2:1", "--width=8", "--bits=8"
        )
        self.assertRegex(err, r"5 N sum_m D_m = 5 x 1,597 x 24")

    def test_own_features(self):
        rng = np.random.default_rng(0)
        np.savez(
            "mine.npz", features=rng.random((90, 6)), labels=np.arange(90) % 3
        )
        out, err = self.train(
            *SMALL, "--data=npz", "--path=mine.npz", "--queries_per_class=5"
        )
        self.assertIn("15 queries against 75 items", out)
        self.assertIn("Settings for --data=npz: 3 layers x 8, 8 bits", err)
        self.assertEqual(os.listdir("runs"), ["npz-001"])
        config = runs.RunDirectory.open("runs/npz-001").config
        self.assertEqual(config.network.normalization, "auto")
        self.assertIsNone(config.optimization.batch_size)

    def test_data_that_changed_is_refused(self):
        rng = np.random.default_rng(0)
        x, y = rng.random((90, 6)), np.arange(90) % 3
        np.savez("mine.npz", features=x, labels=y)
        source = ("--data=npz", "--path=mine.npz", "--queries_per_class=5")
        self.train(*SMALL, *source, "--run_dir=here", "--verbose=0")
        self.assertIsNone(run_tool("evaluate", "--run_dir=here")[1])
        os.remove("here/curves.json")
        np.savez("mine.npz", features=x[::-1], labels=y[::-1])
        refused = "^error: The data must be what here was trained on"
        _, error = run_tool("evaluate", "--run_dir=here")
        self.assertRegex(error, refused)
        os.rename("here/metrics.json", "metrics.json")
        _, error = run_tool("train", "--resume", "--run_dir=here")
        self.assertRegex(error, refused)
        # A run without a digest shows itself by its numbers.
        os.rename("metrics.json", "here/metrics.json")
        directory = runs.RunDirectory.open("here")
        known = directory.data
        del known["sha256"]
        directory.write_json("data.json", known)
        _, error = run_tool("evaluate", "--run_dir=here")
        self.assertRegex(error, "^error: A run that is measured again .* was ")
        self.assertFalse(os.path.exists("here/curves.json"))

    def test_own_features_need_no_plan(self):
        rng = np.random.default_rng(0)
        np.savez(
            "mine.npz", features=rng.random((90, 6)), labels=np.arange(90) % 3
        )
        self.train(
            "--data=npz",
            "--path=mine.npz",
            "--queries_per_class=5",
            "--layers=6",
            "--width=8",
            "--bits=8",
            "--epochs=3",
            "--verbose=0",
        )
        config = runs.RunDirectory.open("runs/npz-001").config
        self.assertEqual(config.stages, recipes.plan(6, 3))

    def test_resume(self):
        directory = runs.RunDirectory.create(
            "runs/digits-001",
            presets.get("auto").replace(
                data="digits", stages=Stages.parse("2:1:1e-3"), width=8
            ),
        )
        _, error = run_tool("train", "--resume", "--bits=16")
        self.assertRegex(error, "^error: A resumed run must keep its settings")
        self.train("--resume", "--verbose=0")
        self.assertTrue(directory.finished)


class BadFlagsTest(tool_runner.ToolTestCase):
    @parameterized.parameters(
        (("--preset=imagenet",), "must be one of auto, digits.*'imagenet'"),
        (("--bits=0",), "`bits` must.*bits=0"),
        (("--bits=1000000000",), "`bits`=1000000000.* 2,048 GB, and there are"),
        (("--width=1000000",), "`width`=1000000.* 96,001 GB, and there are"),
        (("--seed=4294967296",), "`seed` must.*4294967296"),
        (("--warmup=1",), "`warmup` must.*warmup=1"),
        (("--queries_per_class=0",), "`queries_per_class` must.*class=0"),
        (("--beta=-1",), "`beta` must.*beta=-1"),
        (("--gamma=0",), "`gamma` must.*gamma=0"),
        (("--stages=4",), "layers:epochs:learning_rate"),
        (("--preset=mnist", "--data_dir=nowhere"), "must exist.*'nowhere'"),
        (("--data=npz", "--path=nowhere.npz"), "nowhere.npz.*does not exist"),
        (("--resume",), "unfinished run under 'runs'"),
        (("--verbose=3",), "--verbose must be 0, 1 or 2"),
        (("--bitz=3",), "Unknown flag --bitz. Did you mean --bits"),
    )
    def test_train(self, flags, pattern):
        _, error = run_tool("train", *flags)
        self.assertRegex(error, "(?s)^error: .*" + pattern)
        self.assertEqual(os.listdir(), [])

    def test_evaluate_without_a_run(self):
        _, error = run_tool("evaluate")
        self.assertRegex(error, "^error: .*python tools/train.py")
        _, error = run_tool("evaluate", "--run_dir=nowhere")
        self.assertRegex(error, "^error: .*Received: nowhere")


if __name__ == "__main__":
    absltest.main()
