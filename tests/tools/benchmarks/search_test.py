"""The benchmark of search, on a small run."""

import json
import os
import shutil

import pytest
from absl.testing import absltest

from tests.support import export_fixtures
from tests.support import tool_runner
from tests.support.tool_runner import run_tool

pytest.importorskip("faiss", reason="search needs `pip install faiss-cpu`")

TOOL = "benchmarks/search"


class SearchTest(tool_runner.ToolTestCase):
    def setUp(self):
        super().setUp()
        shutil.copytree(
            export_fixtures.run_dir(), os.path.join("runs", "digits-001")
        )

    @pytest.mark.slow
    def test_finds_what_faiss_finds(self):
        _, error = run_tool(TOOL, "--rows=2000", "--repeats=1")
        self.assertIsNone(error)
        with open("runs/digits-001/search.json") as f:
            result = json.load(f)
        for data in ("database", "large", "random"):
            for kind, row in result[f"kinds_{data}"].items():
                self.assertEqual(row["radius_recall"], 1.0)
                if kind in ("flat", "hash"):
                    self.assertEqual(row["search_recall"], 1.0)
        self.assertLess(result["ties"]["gap_in_standard_errors"], 3)
        # Of the tool that encodes, not of this process.
        for row in result["encode"]["rows"].values():
            self.assertBetween(row["peak_mb"], 100, 1500)

    def test_bad_flags(self):
        _, error = run_tool(TOOL, "--k=0")
        self.assertRegex(error, "^error: --k must be")
        _, error = run_tool(TOOL, "--rows=1000000")
        self.assertRegex(error, "^error: .*25 moves")


if __name__ == "__main__":
    absltest.main()
