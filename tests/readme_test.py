"""The README is executed, and says what continuous integration runs."""

import os
import re
import subprocess
import sys
import tempfile

from absl.testing import absltest

from tests.support import case

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _read(*names):
    with open(os.path.join(ROOT, *names)) as f:
        return f.read()


def _blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", _read("README.md"), re.DOTALL)


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
        for document in ("README.md", "BUILD.md", "CONTRIBUTING.md"):
            for path in re.findall(pattern, _read(document)):
                self.assertTrue(
                    os.path.isfile(os.path.join(ROOT, path)),
                    f"{document}: {path}",
                )


if __name__ == "__main__":
    absltest.main()
