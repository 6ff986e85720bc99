"""`tools/serve.py`, `prepare.py` and `site.py` as a person runs them."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from absl.testing import absltest

from tests.support import export_fixtures
from tests.support import service_case
from tests.support import tool_runner
from vdsh_tf.service import bundle

pytest.importorskip("fastapi", reason="`pip install 'vdsh_tf[serve]'`")

# Serves where TensorFlow and Keras cannot be imported.
NO_TENSORFLOW = """
import sys
sys.modules.update(dict.fromkeys(("keras", "tensorflow")))
from vdsh_tf.tools import vdsh
sys.exit(vdsh.main(sys.argv[1:]))
"""


class ServeTest(tool_runner.ToolTestCase):
    def setUp(self):
        super().setUp()
        self.run_dir = os.path.join("runs", "digits-001")
        shutil.copytree(export_fixtures.run_dir(), self.run_dir)

    def in_run(self, *names):
        return os.path.join(self.run_dir, *names)

    def start(self, *flags, code=NO_TENSORFLOW):
        """A service in a process of its own, and its address."""
        process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", "--port=0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=export_fixtures.environment(),
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("listening at "):
                return process, line.split()[2]
        self.fail(process.stderr.read())

    def test_one_command(self):
        """The newest run is prepared, served and stopped."""
        code = NO_TENSORFLOW.replace("sys.modules", "{}")
        process, address = self.start(code=code)
        client = service_case.Client(address)
        _, about = client.ask("GET", "/v1/about")
        self.assertEqual(about["title"], "Digits")
        self.assertEqual(about["items"], 1597)
        self.assertEqual(about["image_shape"], [8, 8, 1])
        self.assertTrue(about["pictures"] and about["rerank"] and about["map"])
        (found,) = client.search(ids=[7], k=3, rerank=50)
        self.assertEqual(found["hits"][0]["id"], 7)
        labels = export_fixtures.split().database.y
        for hit in found["hits"]:
            self.assertEqual(hit["payload"], {"label": int(labels[hit["id"]])})
        client.close()
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        self.assertIn("every acknowledged item is stored", rest)
        self.assertEqual(process.wait(), 0)
        with open(self.in_run("service", bundle.ABOUT)) as f:
            self.assertEqual(json.load(f)["fingerprint"], about["fingerprint"])
        _, error = tool_runner.run_tool("prepare")
        self.assertRegex(error, "must be new, or what was added to it is lost")

    def test_parts_without_tensorflow(self):
        folder = service_case.folder()
        flags = (
            f"--encoder={folder}/{bundle.ENCODER}",
            f"--index=faiss:{folder}/{bundle.INDEX}",
        )
        with open("token.txt", "w") as f:
            f.write(service_case.TOKEN + "\n")
        process, address = self.start(*flags, "--token_file=token.txt")
        client = service_case.Client(address, service_case.TOKEN)
        row = service_case.rows()[400].tolist()
        body = {"items": [{"row": row, "payload": {"new": True}}]}
        self.assertEqual(client.ask("POST", "/v1/items", body)[0], 201)
        (found,) = client.search(rows=row, k=1, filter="new = true")
        self.assertEqual(found["hits"][0]["id"], service_case.ITEMS)
        body = {"ids": [1], "rerank": 10}
        status, answer = client.ask("POST", "/v1/search", body)
        self.assertEqual(status, 400)
        self.assertIn("needs embeddings", answer["error"])
        client.close()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 0)
        self.assertTrue(os.path.exists(f"{folder}/{bundle.INDEX}.items.sqlite"))

    def test_what_is_wrong(self):
        with open("short.txt", "w") as f:
            f.write("short")
        with open("broken", "w") as f:
            f.write("{")
        folder = service_case.folder()
        parts = (
            f"--encoder={folder}/{bundle.ENCODER}",
            f"--index=faiss:{folder}/{bundle.INDEX}",
        )
        for message, *flags in (
            ("--encoder needs --index", parts[0]),
            ("at least 16", "--token_file=short.txt"),
            ("No such file", "--token_file=none.txt"),
            ("there is none", "--encoder=none.onnx", parts[1]),
            ("must be able to listen", *parts, "--host=192.0.2.1"),
            ("must be able to listen", *parts, "--port=99999"),
            ("must be an encoder.onnx", "--encoder=broken", parts[1]),
            ("a number per bit", *parts, "--embeddings=x.npy"),
        ):
            if "x.npy" in flags[-1]:
                import numpy as np

                np.save("x.npy", np.zeros((3, 5), np.float16))
            with self.subTest(message):
                _, error = tool_runner.run_tool("serve", *flags)
                self.assertRegex(error or "", f"^error: (?s:.*){message}")

    def test_site(self):
        shutil.copytree(service_case.prepared(), self.in_run("service"))
        os.mkdir("ort")
        _, error = tool_runner.run_tool("site", "--ort=ort")
        self.assertRegex(error, "must have ort.wasm.min.mjs")
        from vdsh_tf.service import site

        for name in site.ORT_FILES:
            with open(f"ort/{name}", "w") as f:
                f.write("")
        out, error = tool_runner.run_tool("site", "--ort=ort", "--items=50")
        self.assertIsNone(error)
        self.assertStartsWith(out, "50 items, ")
        with open(self.in_run("site", "site.json")) as f:
            facts = json.load(f)
        self.assertLen(facts["payloads"], 50)
        size = os.path.getsize(self.in_run("site", "pictures.bin"))
        self.assertEqual(size, 50 * 64)
        _, error = tool_runner.run_tool("site", "--ort=ort")
        self.assertRegex(error, "must be a new folder")


if __name__ == "__main__":
    absltest.main()
