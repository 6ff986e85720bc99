"""tools/reproduce.py: its flags, and its report without data."""

import contextlib
import os
import tempfile

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support.tool_runner import run_tool
from vdsh_tf.research.reproduction import figures


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

    def test_missing_data_is_listed_and_shown_in_every_figure(self):
        out, error = run_tool(
            "reproduce",
            "--figure=few-shot",
            "--budget=smoke",
            "--features_dir=nowhere",
        )
        self.assertRegex(error, "^error: 6 points could not be computed")
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


if __name__ == "__main__":
    absltest.main()
