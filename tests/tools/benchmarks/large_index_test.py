"""The benchmark of mapped indexes, on few codes."""

import json

import pytest
from absl.testing import absltest

from tests.support import tool_runner
from tests.support.tool_runner import run_tool

pytest.importorskip("faiss", reason="search needs `pip install faiss-cpu`")

TOOL = "benchmarks/large_index"


class LargeIndexTest(tool_runner.ToolTestCase):
    @pytest.mark.slow
    def test_measures(self):
        out, error = run_tool(
            TOOL, "--count=50000", "--queries=3", "--work=.", "--out=a.json"
        )
        self.assertIsNone(error)
        with open("a.json") as f:
            result = json.load(f)
        self.assertGreater(result["flat"]["bytes"], 400_000)
        self.assertGreater(result["hash"]["bytes"], 800_000)
        for kind in ("flat", "hash"):
            self.assertLess(result[kind]["open_seconds"], 2)
            self.assertLess(result[kind]["peak_mb"], 1000)
        self.assertIn("open_seconds", out)

    def test_bad_flags(self):
        _, error = run_tool(TOOL, "--bits=63")
        self.assertRegex(error, "^error: --bits must be.*63")


if __name__ == "__main__":
    absltest.main()
