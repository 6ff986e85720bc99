"""Messages of a tool: those of this library, and of others only errors."""

import contextlib
import importlib.abc
import importlib.machinery
import logging
import os
import sys
import tempfile
from collections.abc import Iterator

from absl import logging as absl_logging

import vdsh_tf
from vdsh_tf.tools import interrupts

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# `tools` lies beside the package in a checkout, and inside it when installed.
_FOLDERS = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep
    for path in (vdsh_tf.__file__, __file__)
)


@contextlib.contextmanager
def messages(verbose: bool = False) -> Iterator[None]:
    """Shows what this library logs, and of others nothing but errors.

    Args:
        verbose: whether to show all messages. They are shown, too, where
            TF_CPP_MIN_LOG_LEVEL is 0 or 1 in the environment.
    """
    verbose = verbose or os.environ.get(_LEVEL) in ("0", "1")
    others = logging.INFO if verbose else logging.ERROR
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(lambda r: r.levelno >= others or _is_ours(r.pathname))
    with (
        contextlib.nullcontext() if verbose else quiet_start(),
        _levels({"": others, "tensorflow": others}),
    ):
        verbosity = absl_logging.get_verbosity()
        absl_logging.set_verbosity(absl_logging.INFO)
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)
            absl_logging.set_verbosity(verbosity)


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Hides what TensorFlow writes when it is first imported, errors aside."""
    finder = _QuietTensorFlow()
    sys.meta_path.insert(0, finder)
    os.environ.setdefault(_LEVEL, "3")
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _QuietTensorFlow(importlib.abc.MetaPathFinder):
    """Imports TensorFlow as usual, but silently.

    Some of its first messages come from C++ before any level is looked at.
    """

    def find_spec(self, fullname, path, target=None):
        if fullname != "tensorflow":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_silently(module):
                with _silent_stderr():
                    load(module)

            spec.loader.exec_module = load_silently
        return spec


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Hides what is written to standard error, unless there is an error."""
    sys.stderr.flush()
    real = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        try:
            yield
        except Exception:
            if not interrupts.requested():
                hidden.seek(0)
                os.write(real, hidden.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(real, 2)
            os.close(real)


@contextlib.contextmanager
def _levels(levels: dict[str, int]) -> Iterator[None]:
    """Sets the levels of loggers for a while."""
    before = {name: logging.getLogger(name).level for name in levels}
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _is_ours(path: str) -> bool:
    """Whether a file is one of this library's or its tools'."""
    return path.startswith(_FOLDERS)
