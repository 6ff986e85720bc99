"""The load test of the service, shortly."""

import os
import shutil

import pytest
from absl.testing import absltest

from tests.support import export_fixtures
from tests.support import service_case
from tests.support import tool_runner

pytest.importorskip("fastapi", reason="`pip install 'vdsh_tf[serve]'`")


class ServiceTest(tool_runner.ToolTestCase):
    def test_none_lost(self):
        run = os.path.join("runs", "digits-001")
        shutil.copytree(export_fixtures.run_dir(), run)
        shutil.copytree(service_case.prepared(), os.path.join(run, "service"))
        out, error = tool_runner.run_tool(
            "benchmarks/service",
            "--seconds=1",
            "--connections=3",
            "--format=bytes",
            "--rerank=20",
        )
        self.assertIsNone(error)
        self.assertIn("300 items, rows of 64, one thread", out)
        self.assertRegex(out, r"3 connections: .*/s.* 0 lost, 0 wrong")


if __name__ == "__main__":
    absltest.main()
