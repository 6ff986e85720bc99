"""`tools/export.py` as a person types it, and what it says of mistakes."""

import contextlib
import os
import shutil

from absl.testing import absltest

from tests.support import export_fixtures
from tests.support import tool_runner
from vdsh_tf.export import runtimes


class ExportTest(tool_runner.ToolTestCase):
    def workplace(self) -> str:
        """A folder with one finished run in `runs`."""
        folder = export_fixtures.folder()
        shutil.copytree(
            export_fixtures.run_dir(), os.path.join(folder, "runs", "tiny-001")
        )
        return folder

    def test_works_as_typed(self):
        folder = self.workplace()
        found = export_fixtures.tool("--onnx", cwd=folder)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertEqual(found.stderr, "")
        out = os.path.join(folder, "runs", "tiny-001", "export")
        self.assertSameElements(
            os.listdir(out), [runtimes.ONNX, runtimes.PIXELS]
        )
        model = export_fixtures.model()
        for text in (
            f"model {model.encoder.fingerprint()}",
            "x float32 [batch, 64] -> codes uint8 [batch, 2]",
            "onnx                     1024",
        ):
            self.assertIn(text, found.stdout)

    def test_says_what_is_wrong(self):
        damaged = self.workplace()
        path = os.path.join(damaged, "runs", "tiny-001", "model.keras")
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) // 2)
        unfinished = self.workplace()
        run = os.path.join(unfinished, "runs", "tiny-001")
        os.remove(os.path.join(run, "metrics.json"))
        empty = export_fixtures.folder()
        for code, message, folder, *flags in (
            (1, "it is damaged", damaged),
            (1, "The run must be finished", unfinished, f"--run_dir={run}"),
            (1, "Train one with `python tools/train.py`", empty),
            (1, "A run directory with config.json", empty, "--run_dir=no"),
            (2, "(choose from 'static')", empty, "--quantize=dynamic"),
            (2, "invalid int value: 'x'", empty, "--opset=x"),
            (2, "Unknown arguments: extra", empty, "extra"),
        ):
            with self.subTest(message), contextlib.chdir(folder):
                found = tool_runner.run("export", *flags)
                self.assertEqual(found.code, code)
                self.assertStartsWith(found.err, "error: ")
                self.assertIn(message, found.err)
                self.assertNotIn("Traceback", found.err)


if __name__ == "__main__":
    absltest.main()
