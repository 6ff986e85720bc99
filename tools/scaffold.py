"""What all tools share: flags, messages, errors as exit codes.

A tool states its flags as one frozen dataclass of `vdsh_tf.config.setting`s,
and its work as a function of it:

    def main(argv=None) -> int:
        return scaffold.run(work, Args, __doc__, argv)

    if __name__ == "__main__":
        sys.exit(main())

It imports what needs TensorFlow inside its functions: `--help` then comes at
once, and TensorFlow's start-up messages are off before it starts.

Exit codes: 0 done, 1 an error that the message explains, 2 wrong flags, 130
interrupted (Ctrl-C), 143 terminated (SIGTERM).
"""

import atexit
import contextlib
import dataclasses
import gc
import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import tqdm

from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import interrupts
from vdsh_tf.tools import quiet

ERRORS = (ValueError, OSError, RuntimeError, MemoryError, ImportError)


@dataclasses.dataclass(frozen=True)
class Common:
    """A flag of every tool that has no other meaning for it."""

    verbose: bool = setting(
        False, SWITCH, "Show warnings and TensorFlow's own messages, too."
    )


def run(
    work: Callable[[Any], None],
    args_class: Any,
    doc: str | None,
    argv: Sequence[str] | None = None,
    interrupted: str | None = None,
) -> int:
    """Parses the flags, does the work, and says in one line what went wrong.

    Args:
        work: the tool, a function of its flags.
        args_class: frozen dataclass of the flags. A class method
            `defaults(argv)` makes an instance where defaults depend on flags.
        doc: the tool's docstring, which `--help` begins with.
        argv: the flags; default those of this process.
        interrupted: what to say after Ctrl-C or SIGTERM of what was kept and
            how to go on; default that every file is whole. A tool that knows
            it only as it works says it with `interrupts.keeping`.

    Returns:
        The exit code.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    # At its end, Python looks for garbage among all that is left, which takes
    # a second where TensorFlow made graphs; the system frees it at once.
    atexit.register(gc.freeze)
    with interrupts.watching(interrupted) as watch:
        try:
            return _run(work, args_class, doc or "", argv)
        except BaseException as error:
            request = watch.cause(error)
            if request is None:
                raise
            return _fail(watch.sentence(request), request.code)


def _run(work, args_class, doc, argv):
    prog = program(work)
    try:
        args, verbose = _parse(args_class, doc, prog, argv)
        # Whatever other programs of this user run on.
        os.environ["KERAS_BACKEND"] = "tensorflow"
        with quiet.messages(verbose):
            work(args)
        sys.stdout.flush()
    except flags.HelpShown:
        return 0
    except flags.UsageError as error:
        return _fail(f"error: {error} See `{prog} --help`.", 2)
    except BrokenPipeError:
        # The reader of the output, such as `head`, has seen enough.
        _write_nowhere()
    except ERRORS as error:
        if interrupts.requested():
            raise
        return _fail(f"error: {error}", 1)
    return 0


def program(work: Callable) -> str:
    """How the tool was called: `python tools/NAME.py` or `vdsh NAME`."""
    if work.__module__ == "__main__":
        return f"python {os.path.relpath(sys.argv[0])}"
    name = work.__module__.removeprefix("vdsh_tf.tools.")
    return f"vdsh {name.replace('.', '/')}"


@contextlib.contextmanager
def progress(total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Yields a function of the number done; a bar, on a terminal only.

    `total` is None where it is not known before.
    """
    with tqdm.tqdm(total=total, unit=unit, disable=None) as bar:
        yield lambda done: bar.update(done - bar.n)


def _parse(args_class, doc, prog, argv) -> tuple[Any, bool]:
    """The tool's flags, and whether to show all messages."""
    make = getattr(args_class, "defaults", None)
    base = make(argv) if make else args_class()
    if hasattr(base, "verbose"):
        return flags.parse(base, doc, prog, argv), False
    args, common = flags.parse((base, Common()), doc, prog, argv)
    return args, common.verbose


def _write_nowhere() -> None:
    """Lets Python end without another try to write to a closed pipe."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _fail(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code
