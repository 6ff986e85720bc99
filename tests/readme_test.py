"""The README is executed, and says what continuous integration runs."""

import os
import re
import subprocess
import sys
import tempfile

from absl.testing import absltest

from tests.support import case
from tests.support import service_case
from tests.support import tool_runner

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _read(*names):
    with open(os.path.join(ROOT, *names)) as f:
        return f.read()


def _blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", _read("README.md"), re.DOTALL)


# So little is trained that the commands themselves are what is tested.
SMALL = {
    "train": ("--stages=2:1:1e-3", "--width=16", "--batch_size=256"),
    "serve": ("--port=0",),
}


class CommandsTest(tool_runner.ToolTestCase):
    def test_commands_run_in_their_order(self):
        text = "\n".join(_blocks("sh"))
        commands = re.findall(r"python tools/(\w+)\.py(.*)", text)
        self.assertEqual(
            [name for name, _ in commands], ["train", "serve", "export"]
        )
        for name, flags in commands:
            flags = (*flags.split(), *SMALL.get(name, ()))
            if name == "serve":
                self.check_served(flags)
                continue
            done = tool_runner.run(name, *flags)
            self.assertEqual(done.code, 0, done.err)
        self.assertTrue(os.path.isfile("runs/digits-001/export/encoder.onnx"))

    def check_served(self, flags):
        """The newest run is prepared; its items have neighbours."""
        process = subprocess.Popen(
            [sys.executable, os.path.join(ROOT, "tools", "serve.py"), *flags],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            lines = iter(process.stdout)
            place = next(t.split()[2] for t in lines if " at http" in t)
            client = service_case.Client(place)
            self.assertEqual(client.ask("GET", "/")[0], 200)
            self.assertLen(client.search(ids=[5], k=3)[0]["hits"], 3)
            client.close()
        finally:
            process.terminate()
            process.communicate()
        self.assertEqual(process.returncode, 0)

    def test_commands_of_vdsh_are_there(self):
        from vdsh_tf.tools import vdsh

        named = set(re.findall(r"`vdsh (\w+)", _read("README.md")))
        # The service is a room of its own.
        self.assertContainsSubset(named - {"serve"}, vdsh.commands())


class ReadmeTest(case.TestCase):
    def test_python_quick_start_runs(self):
        block = "\n".join(_blocks("python"))
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", block],
                cwd=folder,
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": ROOT},
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertSameElements(
                os.listdir(folder), ["digits.keras", "digits.index"]
            )
        # The first digit is a zero, and so are its ten nearest.
        self.assertEqual(done.stdout.strip(), "0 [0 0 0 0 0 0 0 0 0 0]")

    def test_ci_runs_the_readmes_test_command(self):
        commands = [c.strip() for c in _blocks("sh") if "pytest" in c]
        self.assertLen(commands, 1)
        self.assertIn(commands[0], _read(".ci", "run"))

    def test_every_named_file_exists(self):
        pattern = r"(?:tools|vdsh_tf|tests|export)/[\w/]+\.py"
        documents = ["README.md", "BUILD.md", "CONTRIBUTING.md"]
        pages = sorted(os.listdir(os.path.join(ROOT, "docs")))
        documents += [f"docs/{name}" for name in pages if name.endswith(".md")]
        for document in documents:
            for path in re.findall(pattern, _read(document)):
                self.assertTrue(
                    os.path.isfile(os.path.join(ROOT, path)),
                    f"{document}: {path}",
                )


if __name__ == "__main__":
    absltest.main()
