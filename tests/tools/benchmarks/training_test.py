"""The benchmark of training: quality over time, and bad flags."""

import json
import os

import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import tool_runner
from tests.support.tool_runner import run_tool

TOOL = "benchmarks/training"


class QualityTest(tool_runner.ToolTestCase):
    @pytest.mark.slow
    def test_quality_over_two_seeds_and_depths(self):
        code, out, err = tool_runner.run(
            TOOL,
            "--preset=digits",
            "--stages=2:1:1e-3,3:1:1e-3",
            "--width=8",
            "--bits=8",
            "--batch_size=256",
            "--repeats=2",
            "--depths=3,4",
            "--baseline=looks_linear 2:1:1e-3,3:1:1e-3",
            "--out=out",
        )
        self.assertEqual(code, 0, err)
        self.assertIn("Means over 2 seed(s).", out)
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
                out,
                rf"{layers} layers .*\nVDSH \(ADMM\) +{sum(ends) / 2:.4f} ",
            )
        self.assertGreater(os.path.getsize("out/quality.png"), 0)

    def _read(self, name):
        with open(os.path.join("out", name)) as f:
            return json.load(f)


class BadFlagsTest(tool_runner.ToolTestCase):
    def test_without_data(self):
        _, error = run_tool(TOOL, "--preset=cifar10_cnn")
        self.assertRegex(error, "^error: .*needs `path`")

    @parameterized.parameters(
        (("--depths=8,x",), "integers.*8,x"),
        (("--depths=0",), "`layers` must.*layers=0"),
        (("--baseline=he_normal 9:1:1e-3",), "as deep as VDSH.*9 layers"),
        (("--repeats=0",), "--repeats must be"),
        (("--what=time",), "invalid choice: 'time'"),
    )
    def test_flags(self, flags, pattern):
        _, error = run_tool(TOOL, "--preset=digits", *flags)
        self.assertRegex(error, "^error: .*" + pattern)
        self.assertEqual(os.listdir(), [])


if __name__ == "__main__":
    absltest.main()
