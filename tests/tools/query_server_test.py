"""tools/query.py with codes from a server: the same answers."""

import os
import shutil

import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import export_fixtures
from tests.support.tool_runner import run_tool
from vdsh_tf.research.benchmarks import model_server

pytest.importorskip("faiss", reason="search needs `pip install faiss-cpu`")


class QueryServerTest(parameterized.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_dir = os.path.join(export_fixtures.folder(), "digits-001")
        shutil.copytree(export_fixtures.run_dir(), cls.run_dir)
        base = os.path.join(export_fixtures.out(), "saved_model")
        cls.server = model_server.Server(base, grpc_too=False)
        cls.addClassCleanup(cls.server.close)
        for name in ("encode", "index"):
            _, error = run_tool(name, f"--run_dir={cls.run_dir}")
            assert error is None, error

    def test_gives_the_answers_of_the_local_encoder(self):
        flags = [f"--run_dir={self.run_dir}", "--k=3"]
        here, error = run_tool("query", *flags)
        self.assertIsNone(error)
        there, error = run_tool("query", *flags, f"--server={self.server.rest}")
        self.assertIsNone(error)
        self.assertEqual(here, there)
        self.assertLen(here.splitlines(), 1 + 200 * 3)

    def test_says_when_nobody_answers(self):
        _, error = run_tool(
            "query", f"--run_dir={self.run_dir}", "--server=http://127.0.0.1:9"
        )
        self.assertRegex(error, "error: .*127.0.0.1:9")


if __name__ == "__main__":
    absltest.main()
