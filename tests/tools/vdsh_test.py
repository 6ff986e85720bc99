"""The command `vdsh`, which runs the other tools."""

import contextlib
import io
import os
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import tool_runner
from vdsh_tf.tools import vdsh


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = vdsh.main(argv)
    return code, out.getvalue(), err.getvalue()


class VdshTest(case.TestCase):
    @parameterized.parameters(
        (), ("--help",), ("-h",), ("help",), ("benchmark",), ("benchmark", "-h")
    )
    def test_lists_all_tools(self, *argv):
        code, out, err = run(*argv)
        self.assertEqual((code, err), (0, ""))
        folder = tool_runner.ROOT / "tools"
        scripts = [
            path.relative_to(folder).with_suffix("").as_posix()
            for path in folder.rglob("*.py")
            if "__main__" in path.read_text() and path.stem != "vdsh"
        ]
        # The scaffold quotes the line in its docstring.
        scripts.remove("scaffold")
        self.assertSameElements(vdsh.commands(), scripts)
        for name, text in vdsh.commands().items():
            self.assertRegex(out, rf"\n  {name} +{text[:20]}")
            self.assertEndsWith(text, ".")

    @parameterized.parameters(
        (("train",), "train"),
        (("benchmark", "training"), "benchmarks/training"),
        (("benchmarks", "search"), "benchmarks/search"),
        (("benchmarks/export",), "benchmarks/export"),
    )
    def test_runs_a_tool(self, words, name):
        code, out, _ = run(*words, "--help")
        self.assertEqual(code, 0)
        self.assertStartsWith(out, f"usage: vdsh {name} ")
        self.assertEqual(run(*words, "--bitz=3")[0], 2)

    @parameterized.parameters(
        (("trian",), "Unknown command trian. Did you mean train?"),
        (("benchmark", "serch"), "Unknown command benchmarks/serch. Did you"),
        (("zzz",), "Unknown command zzz. Commands: encode, .*sweep, train"),
    )
    def test_unknown_command(self, words, message):
        code, out, err = run(*words)
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(err, f"^error: {message}.*\n$")

    @parameterized.parameters(
        (("-m", "vdsh_tf.tools.vdsh"), "usage: vdsh COMMAND"),
        ((str(tool_runner.ROOT / "tools" / "vdsh.py"),), "usage: vdsh COMMAND"),
        (
            (str(tool_runner.ROOT / "tools" / "train.py"), "--help"),
            "usage: python ",
        ),
        (
            (
                str(tool_runner.ROOT / "tools" / "benchmarks" / "search.py"),
                "--help",
            ),
            "usage: python ",
        ),
    )
    def test_as_typed(self, command, start):
        done = subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            check=True,
            cwd=os.path.dirname(__file__),
        )
        self.assertStartsWith(done.stdout, start)
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    absltest.main()
