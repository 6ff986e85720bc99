"""The command-line tools, run as a person would."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support.tool_runner import run_tool

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALL = ("--stages=2:1:1e-3,3:1:1e-3", "--width=8", "--bits=8")


def tool(name, *flags, cwd):
    """Runs tools/NAME.py; returns the finished process."""
    return subprocess.run(
        [sys.executable, os.path.join(ROOT, "tools", f"{name}.py"), *flags],
        cwd=cwd, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip


class ToolCase(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cwd = folder.name

    def tool(self, name, *flags):
        return tool(name, *flags, cwd=self.cwd)

    def assert_error(self, process, pattern):
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(process.stderr, pattern)
        self.assertNotIn("Traceback", process.stderr)


class TrainAndEvaluateTest(ToolCase):
    def test_train_then_evaluate_gives_the_same_numbers(self):
        trained = self.tool("train", *SMALL)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertIn("mAP", trained.stdout)
        self.assertIn("runs/digits-001", trained.stdout)
        path = os.path.join(self.cwd, "runs", "digits-001", "metrics.json")
        with open(path) as f:
            want = json.load(f)
        evaluated = self.tool("evaluate", "--json")
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        got = json.loads(evaluated.stdout)
        self.assertEqual(got, {key: want[key] for key in got})
        self.assertIn("map", got)
        self.assert_error(
            self.tool("train", "--run_dir=runs/digits-001"),
            "must be new.*--resume",
        )
        self.assert_error(
            self.tool("train", "--resume", "--run_dir=runs/digits-001"),
            "must be unfinished",
        )

    def test_flags_override_the_preset(self):
        done = self.tool("train", *SMALL, "--run_dir=here", "--layers=4",
                         "--epochs=2", "--margin=0", "--seed=3")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.cwd, "here", "config.json")) as f:
            config = json.load(f)
        self.assertEqual(config["stages"][-1]["layers"], 4)
        self.assertEqual(config["stages"][-1]["epochs"], 2)
        self.assertEqual(config["margin"], 0.0)
        self.assertEqual(config["seed"], 3)

    def test_full_schedule_says_its_memory(self):
        done = self.tool("train", "--schedule=full", "--stages=3:2:1",
                         "--width=8", "--bits=8")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"5 N sum_m D_m = 5 x 1,597 x 24")

    def test_own_features(self):
        rng = np.random.default_rng(0)
        path = os.path.join(self.cwd, "mine.npz")
        np.savez(path, features=rng.random((90, 6)), labels=np.arange(90) % 3)
        done = self.tool("train", *SMALL, "--data=npz", "--path=mine.npz",
                         "--queries_per_class=5")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("15 queries against 75 items", done.stdout)


class SweepTest(ToolCase):
    def test_means_over_runs_that_are_kept(self):
        out = os.path.join(self.cwd, "sweep")
        args = ("--preset=digits", "--bits=8", "--seeds=0", f"--out={out}",
                "--against=lsh")  # fmt: skip
        text, error = run_tool("sweep", *args)
        self.assertIsNone(error)
        with open(os.path.join(out, "digits-lsh-8bits-seed0.json")) as f:
            other = json.load(f)
        self.assertIn(f"{other['map']:.4f}", text)
        path = os.path.join(out, "digits-8bits-seed0", "metrics.json")
        with open(path) as f:
            found = json.load(f)
        self.assertIn(f"{found['map']:.4f}", text)
        # A finished run is read, not trained again.
        with open(path, "w") as f:
            json.dump({**found, "map": 0.1234}, f)
        self.assertIn("0.1234", run_tool("sweep", *args)[0])

    def test_unknown_method(self):
        args = ("--preset=digits", "--bits=8", "--seeds=0",
                f"--out={self.cwd}", "--against=sbh")  # fmt: skip
        _, error = run_tool("sweep", *args)
        self.assertRegex(error, "sdh")


class BadFlagsTest(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.enter_context(contextlib.chdir(folder.name))

    @parameterized.parameters(
        (("--preset=imagenet",), "must be one of digits.*'imagenet'"),
        (("--bits=0",), "`bits` must.*bits=0"),
        (("--beta=-1",), "`beta` must.*beta=-1"),
        (("--gamma=0",), "`gamma` must.*gamma=0"),
        (("--stages=4",), "layers:epochs:learning_rate"),
        (("--preset=mnist", "--data_dir=nowhere"), "must exist.*'nowhere'"),
        (("--data=npz", "--path=nowhere.npz"), "must exist.*nowhere.npz"),
        (("--resume",), "unfinished run under 'runs'"),
    )
    def test_train(self, flags, pattern):
        _, error = run_tool("train", *flags)
        self.assertRegex(error, "^error: .*" + pattern)
        self.assertEqual(os.listdir(), [])

    def test_evaluate_without_a_run(self):
        _, error = run_tool("evaluate")
        self.assertRegex(error, "^error: .*python tools/train.py")
        _, error = run_tool("evaluate", "--run_dir=nowhere")
        self.assertRegex(error, "^error: .*Received: nowhere")

    def test_benchmark_without_data(self):
        _, error = run_tool("benchmark", "--preset=cifar10_cnn")
        self.assertRegex(error, "^error: .*needs `path`")

    @parameterized.parameters(
        (("--depths=8,x",), "integers.*8,x"),
        (("--depths=0",), "`layers` must.*layers=0"),
        (("--baseline=he_normal 9:1:1e-3",), "as deep as VDSH.*9 layers"),
    )
    def test_benchmark(self, flags, pattern):
        _, error = run_tool("benchmark", "--preset=digits", *flags)
        self.assertRegex(error, "^error: .*" + pattern)
        self.assertEqual(os.listdir(), [])


class BenchmarkTest(ToolCase):
    def test_quality_over_two_seeds_and_depths(self):
        process = self.tool(
            "benchmark", "--preset=digits", *SMALL, "--repeats=2",
            "--depths=3,4", "--baseline=looks_linear 2:1:1e-3,3:1:1e-3",
            "--out=out",
        )  # fmt: skip
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("Means over 2 seed(s).", process.stdout)
        for layers, methods in ((3, 2), (4, 1)):
            ends = []
            for seed in (0, 1):
                lines = self._read(f"quality-{layers}layers-seed{seed}.json")
                self.assertLen(lines, methods)
                for points in lines.values():
                    self.assertEqual([p["layers"] for p in points], [2, layers])
                ends.append(lines["VDSH (ADMM)"][-1]["map"])
            self.assertNotEqual(*ends)
            self.assertRegex(
                process.stdout,
                rf"{layers} layers .*\nVDSH \(ADMM\) +{sum(ends) / 2:.4f} ",
            )
        picture = os.path.join(self.cwd, "out", "quality.png")
        self.assertGreater(os.path.getsize(picture), 0)

    def _read(self, name):
        with open(os.path.join(self.cwd, "out", name)) as f:
            return json.load(f)


class UnknownFlagTest(ToolCase):
    def test_unknown_flag(self):
        self.assert_error(
            self.tool("train", "--bitz=3"), "Unknown command line flag 'bitz'"
        )


if __name__ == "__main__":
    absltest.main()
