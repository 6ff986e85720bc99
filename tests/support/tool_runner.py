"""Runs a tool in this process: TensorFlow is imported only once."""

import contextlib
import importlib.util
import io
import os
import sys

from absl import flags

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools")


def run_tool(name, *args):
    """Runs a tool with its flags; returns what it printed and its error."""
    before = set(flags.FLAGS)
    out, error = io.StringIO(), None
    spec = importlib.util.spec_from_file_location(
        f"tool_{name}", os.path.join(TOOLS, f"{name}.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, TOOLS)
    try:
        spec.loader.exec_module(module)
        flags.FLAGS([name, *args])
        with contextlib.redirect_stdout(out):
            module.main([name])
    except SystemExit as stop:
        error = str(stop)
    finally:
        sys.path.remove(TOOLS)
        for flag in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, flag)
        flags.FLAGS.unparse_flags()
    return out.getvalue(), error
