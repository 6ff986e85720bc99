"""tools/query.py with codes from a server: the same hits, or a refusal."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import export_fixtures
from tests.support.tool_runner import run_tool
from tests.tools.search_test import NO_TENSORFLOW
from vdsh_tf.research.benchmarks import model_server
from vdsh_tf.training import runs

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
        cls.make_index(cls.run_dir)

    @staticmethod
    def make_index(run_dir):
        for name in ("encode", "index"):
            _, error = run_tool(name, f"--run_dir={run_dir}")
            assert error is None, error

    def test_gives_the_hits_of_the_local_encoder(self):
        flags = [f"--run_dir={self.run_dir}", "--k=3"]
        here, error = run_tool("query", *flags)
        self.assertIsNone(error)
        there, error = run_tool("query", *flags, f"--server={self.server.rest}")
        self.assertIsNone(error)
        self.assertEqual(here, there)
        self.assertLen(here.splitlines(), 1 + 200 * 3)

    def test_needs_neither_model_nor_tensorflow(self):
        bare = os.path.join(export_fixtures.folder(), "bare")
        shutil.copytree(self.run_dir, bare)
        os.remove(os.path.join(bare, "model.keras"))
        queries = os.path.join(bare, "queries.npy")
        np.save(queries, export_fixtures.split().query.x)
        flags = [f"--run_dir={bare}", "--k=3", f"--queries={queries}"]
        done = subprocess.run(
            [
                *(sys.executable, "-c", NO_TENSORFLOW, "query", *flags),
                f"--server={self.server.rest}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        want, _ = run_tool("query", f"--run_dir={self.run_dir}", "--k=3")
        self.assertEqual(done.stdout.split(), want.split())

    def test_refuses_a_server_with_another_encoder(self):
        """Another network of equal code length, whose codes mean nothing."""
        other = os.path.join(export_fixtures.folder(), "digits-002")
        shutil.copytree(export_fixtures.run_dir(), other)
        model = runs.load_model(os.path.join(other, "model.keras"))
        kernel = model.encoder.kernels[0]
        kernel.assign(kernel + 0.01)
        runs.save_model(model, os.path.join(other, "model.keras"))
        self.make_index(other)
        _, error = run_tool("query", f"--run_dir={other}")
        self.assertIsNone(error)
        out, error = run_tool(
            "query", f"--run_dir={other}", f"--server={self.server.rest}"
        )
        self.assertEqual(out, "")
        self.assertRegex(error, "^error: .*encoder that makes the queries")
        self.assertIn(model.encoder.fingerprint(), error)
        self.assertIn(export_fixtures.model().encoder.fingerprint(), error)

    def test_says_when_nobody_responds(self):
        _, error = run_tool(
            "query", f"--run_dir={self.run_dir}", "--server=http://127.0.0.1:9"
        )
        self.assertRegex(error, "error: .*127.0.0.1:9")


if __name__ == "__main__":
    absltest.main()
