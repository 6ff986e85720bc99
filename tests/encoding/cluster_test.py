"""A real cluster of two Ray nodes on this machine, one of which is killed."""

import os
import socket

import pytest
from absl.testing import absltest

from tests.support import tool_runner

pytest.importorskip("ray", reason="needs `pip install 'vdsh_tf[cluster]'`")
pytest.importorskip("pyarrow", reason="needs `pip install pyarrow`")

from tests.support import parquet_parts as support
from vdsh_tf.encoding import cluster
from vdsh_tf.encoding import jobs
from vdsh_tf.encoding import onnx_encoder
from vdsh_tf.encoding import runs

PARTS = 16
ROWS = 12_000
MEMORY = 100_000_000
# Seconds without a part, where one takes two: it must not hang.
PATIENCE = 120


def targets():
    return [n for n in os.listdir("codes") if n.endswith(".parquet")]


class ClusterTest(tool_runner.ToolTestCase):
    def start(self, attempts=3):
        """A cluster of two nodes; Ray gives each 30 s, little on a busy CPU."""
        from ray import cluster_utils

        nodes = cluster_utils.Cluster()
        self.addCleanup(nodes.shutdown)
        try:
            for _ in range(2):
                last = nodes.add_node(num_cpus=1, object_store_memory=MEMORY)
        except Exception as error:
            if attempts < 2 or "timed out during startup" not in str(error):
                raise
            nodes.shutdown()
            return self.start(attempts - 1)
        return nodes, last

    def plan(self, out):
        content = onnx_encoder.read(support.encoder())
        # Few rows at a time, so that there is a middle to kill a node in.
        return jobs.plan(
            "data/*.parquet", out, content, columns=("label",), batch_size=4
        )

    @pytest.mark.slow
    def test_node_killed_in_the_middle(self):
        support.write_all("data", [ROWS] * PARTS)
        nodes, second = self.start()
        at_kill = []

        def kill_one(_):
            if not at_kill and len(targets()) >= 3:
                nodes.remove_node(second, allow_graceful=False)
                at_kill.append(len(targets()))

        engine = cluster.Cluster(nodes.address, PATIENCE)
        report = runs.run(*self.plan("codes"), "codes", engine, kill_one)
        self.assertLess(at_kill[0], PARTS - 2)
        self.assertEqual(report.failures, ())
        self.assertEqual(report.rows, PARTS * ROWS)
        runs.run(*self.plan("local"), "local")
        self.assertTrue(
            support.read_all("codes").equals(support.read_all("local"))
        )
        for name in targets():
            with (
                open(f"codes/{name}", "rb") as got,
                open(f"local/{name}", "rb") as want,
            ):
                self.assertEqual(got.read(), want.read())

    @pytest.mark.slow
    def test_tool_and_restart(self):
        support.write_all("data", [50] * 3)
        nodes, _ = self.start()
        flags = (
            "--input=data/*.parquet",
            "--out=codes",
            f"--encoder={support.encoder()}",
            f"--cluster={nodes.address}",
        )
        out, error = tool_runner.run_tool("encode", *flags)
        self.assertIsNone(error)
        self.assertRegex(out, "150 codes in 3 parts; 150 made now")
        os.remove("codes/part-001.parquet")
        x = support.rows(50)
        x[7] = 0
        support.write("data/part-002.parquet", x, id=range(50), label=range(50))
        out, error = tool_runner.run_tool("encode", *flags)
        self.assertRegex(out, "100 codes in 2 parts; 50 made now")
        self.assertRegex(error, r"(?s)1 of 3 parts.*part-002.*zeros in row 7")

    def test_out_of_reach(self):
        support.write_all("data", [50])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for address in (f"127.0.0.1:{port}", "nowhere", "127.0.0.1:x"):
            _, error = tool_runner.run_tool(
                "encode",
                "--input=data/*.parquet",
                "--out=codes",
                f"--encoder={support.encoder()}",
                f"--cluster={address}",
            )
            self.assertRegex(error, f"^error: A Ray cluster.*{address}")
            self.assertEmpty(targets())


if __name__ == "__main__":
    absltest.main()
