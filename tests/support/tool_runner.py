"""Runs a tool in this process, so that TensorFlow is imported only once."""

import contextlib
import importlib
import io
import pathlib
import tempfile
from typing import NamedTuple

from tests.support import case

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Result(NamedTuple):
    """Exit code, and what was written."""

    code: int
    out: str
    err: str


def run(name: str, *flags: str) -> Result:
    """Runs `tools/NAME.py` with its flags; NAME may be `benchmarks/search`."""
    module = importlib.import_module(f"vdsh_tf.tools.{name.replace('/', '.')}")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = module.main(flags)
    return Result(code, out.getvalue(), err.getvalue())


def run_tool(name: str, *flags: str) -> tuple[str, str | None]:
    """What a tool printed, and its error; None where there was none."""
    code, out, err = run(name, *flags)
    if code == 0:
        return out, None
    # Messages before it are of no interest here.
    return out, err[max(0, err.find("error: ")) :]


class ToolTestCase(case.TestCase):
    """Tests that run in a folder of their own."""

    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.enter_context(contextlib.chdir(folder))
