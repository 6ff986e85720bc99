"""Errors as exit codes, and the help of all tools."""

import contextlib
import dataclasses
import io
import json
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.config import Solver
from vdsh_tf.research.reproduction import figures
from vdsh_tf.research.reproduction import sources
from vdsh_tf.search import hamming
from vdsh_tf.tools import index
from vdsh_tf.tools import reproduce
from vdsh_tf.tools import scaffold
from vdsh_tf.tools import vdsh
from vdsh_tf.training.config import TrainingConfig

TOOLS = tuple(vdsh.commands())

# Shows the help of all tools, and what is imported after it.
HELP_OF_ALL = """
import contextlib, importlib, io, json, sys

found = {}
for name in sys.argv[1:]:
    out = io.StringIO()
    module = importlib.import_module("vdsh_tf.tools." + name.replace("/", "."))
    with contextlib.redirect_stdout(out):
        code = module.main(["--help"])
    found[name] = code, out.getvalue()
heavy = {"keras", "matplotlib", "numpy", "sklearn", "tensorflow"}
print(json.dumps([found, sorted(heavy & set(sys.modules))]))
"""


@dataclasses.dataclass(frozen=True)
class Args:
    """A tool without flags of its own."""


def run(work, *argv):
    """Exit code, output and errors of a tool that does `work`."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = scaffold.run(work, Args, "", argv)
    return code, out.getvalue(), err.getvalue()


class ErrorsTest(case.TestCase):
    @parameterized.parameters(
        (ValueError("what"), 1, "error: what\n"),
        (FileNotFoundError("what"), 1, "error: what\n"),
        (RuntimeError("what"), 1, "error: what\n"),
        (MemoryError("what"), 1, "error: what\n"),
        (ImportError("what"), 1, "error: what\n"),
        (
            KeyboardInterrupt(),
            130,
            "interrupted; every file is complete, or as it was before. The "
            "same command starts again.\n",
        ),
    )
    def test_code_and_message(self, error, code, message):
        def work(args):
            raise error

        self.assertEqual(run(work), (code, "", message))

    def test_a_mistake_of_the_program_keeps_its_traceback(self):
        with self.assertRaises(ZeroDivisionError):
            run(lambda args: 1 / 0)

    def test_reader_that_has_seen_enough(self):
        code = (
            "import dataclasses\n"
            "from vdsh_tf.tools import scaffold\n"
            "def work(args):\n"
            "    for i in range(100_000): print(i)\n"
            "Args = dataclasses.make_dataclass('Args', [], frozen=True)\n"
            "raise SystemExit(scaffold.run(work, Args, ''))"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.assertEqual(process.stdout.readline(), b"0\n")
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()
        self.assertEqual(process.wait(), 0)


class HelpTest(case.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = subprocess.run(
            [sys.executable, "-c", HELP_OF_ALL, *TOOLS],
            capture_output=True,
            text=True,
            check=True,
        )
        cls.help, cls.imported = json.loads(done.stdout)

    def test_imports_nothing_heavy(self):
        self.assertEqual(self.imported, [])

    @parameterized.parameters(*TOOLS)
    def test_help(self, name):
        code, text = self.help[name]
        self.assertEqual(code, 0)
        self.assertStartsWith(text, f"usage: vdsh {name} [--FLAG=VALUE ...]\n")
        first = vdsh.commands()[name]
        self.assertEqual(text.splitlines()[2], first)
        self.assertIn(f"    python tools/{name}.py", text)
        self.assertNotRegex(text, r"\[(int|str|float)\]|\['|None")

    def test_a_newcomers_flags_come_first(self):
        names = ("preset", "data", "path", "layers", "bits", "epochs")
        names += ("run_dir", "resume", "source:", "network:", "optimization:")
        text = self.help["train"][1].partition("\nflags:")[2]
        places = [
            text.index(n if ":" in n else f"  --{n} ")
            for n in (*names, "solver:")
        ]
        self.assertEqual(places, sorted(places))

    @parameterized.parameters("train", "benchmarks/training")
    def test_every_setting_is_a_flag_with_help(self, tool):
        text = " ".join(self.help[tool][1].split())
        count = 0
        for field in _fields(TrainingConfig()):
            if "custom_args" not in field.metadata:
                # Depth and length have flags of their own.
                self.assertIn(field.name, ("layers", "epochs"))
                continue
            words = field.metadata["custom_args"]["help"]
            self.assertIn(words, text)
            self.assertRegex(text, rf" --{field.name} [^-]+ {words[:5]}")
            count += 1
        self.assertGreater(count, len(dataclasses.fields(Solver)) + 15)


class NamesTest(case.TestCase):
    """Names that are written out, so that `--help` need not import them."""

    def test_kinds_of_index(self):
        self.assertEqual(index.KINDS, hamming.KINDS)

    def test_files_of_features(self):
        fields = {f.name: f for f in dataclasses.fields(reproduce.Args)}
        folder = fields["features_dir"].metadata["custom_args"]["help"]
        for name, (file, what, _) in sources.FILES.items():
            text = fields[f"{name}_path"].metadata["custom_args"]["help"]
            self.assertEqual(text, f"{file}: {what}.")
            self.assertIn(file, folder)

    def test_figures(self):
        text = " ".join(reproduce.__doc__.split())
        self.assertIn(f"Figures: {', '.join(figures.FIGURES)}.", text)


def _fields(part):
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if dataclasses.is_dataclass(value):
            yield from _fields(value)
        else:
            yield field


if __name__ == "__main__":
    absltest.main()
