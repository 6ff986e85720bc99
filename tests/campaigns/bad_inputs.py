"""Gives every entry what it cannot take, and tables what happens.

    python -m tests.campaigns.bad_inputs
    python -m tests.campaigns.bad_inputs --only=tool

A case is refused in the library's own words, or right: equal to what the same
input gives in its plain form. Anything else is a fault: an error that was
raised outside the library (a traceback to the user of a tool), one that takes
too long, or an answer where there is none. Ends with 1 if there is any. Half
a minute on two cores.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

ROOT = str(pathlib.Path(__file__).resolve().parents[2]) + os.sep
SECONDS = 30
OWN = (
    ValueError,
    OSError,
    RuntimeError,
    MemoryError,
    NotImplementedError,
    TypeError,
)


class Case(NamedTuple):
    """One input.

    Attributes:
        entry: where it enters.
        name: what is wrong with it.
        call: gives it to the entry.
        right: says whether what the call returned is right; None if it must
            be refused.
    """

    entry: str
    name: str
    call: Callable[[], Any]
    right: Callable[[Any], bool] | None = None


class HangError(BaseException):
    """A case took too long."""


def _ring(*_):
    raise HangError


def judge(case: Case) -> tuple[str, str]:
    """ "refused", "right" or a fault; and the message."""
    signal.signal(signal.SIGALRM, _ring)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = case.call()
        if case.right is None:
            return "SILENT", repr(result)[:200]
        return ("right", "") if case.right(result) else ("WRONG", "")
    except HangError:
        return "HANG", ""
    except OWN as error:
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        own = last.startswith(ROOT) and f"tests{os.sep}" not in last
        if own and case.right is not None:
            return "WRONG", describe(error)
        return ("refused" if own else "TRACEBACK"), describe(error)
    except Exception as error:
        return "TRACEBACK", describe(error)
    finally:
        signal.alarm(0)


def describe(error: Exception) -> str:
    """Type, text and place of an error."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"
    return f"{type(error).__name__}: {str(error)[:300]} [{place}]"


def tool(name: str, *flags: str) -> Case:
    """A tool with flags that it must refuse, in one line."""
    from tests.support import tool_runner

    def call():
        code, _, err = tool_runner.run(name, *flags)
        lines = [line for line in err.splitlines() if "error: " in line]
        if code in (1, 2) and len(lines) == 1 and "Traceback" not in err:
            return None
        raise AssertionError(f"exit code {code}: {err[-300:]}")

    shown = " ".join(flags) or "no flags"
    return Case(f"tool {name}", shown, call, lambda _: True)


def cases() -> list[Case]:
    """All cases; makes a run in the current folder."""
    from tests.campaigns import bad_arrays
    from tests.campaigns import bad_files
    from tests.campaigns import bad_settings

    return [
        *bad_arrays.cases(),
        *bad_settings.cases(),
        *bad_files.cases(),
    ]


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="entries that begin so")
    args = parser.parse_args(argv)
    table = collections.defaultdict(collections.Counter)
    faults = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for case in cases():
            if not case.entry.startswith(args.only):
                continue
            verdict, message = judge(case)
            # A tool that refuses returns, and says so by its code.
            if verdict == "right" and "tool" in case.entry:
                verdict = "refused"
            table[case.entry][verdict] += 1
            if verdict.isupper():
                faults += 1
                print(f"{verdict} {case.entry}: {case.name}: {message}")
    report(table)
    total = sum(sum(row.values()) for row in table.values())
    print(f"{total} inputs, {faults} faults, {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


def report(table) -> None:
    """Prints counts by entry."""
    names = ("refused", "right", "TRACEBACK", "HANG", "SILENT", "WRONG")
    print(f"| entry | {' | '.join(names)} |")
    print(f"|---|{'---|' * len(names)}")
    for entry, row in sorted(table.items()):
        print(f"| {entry} | {' | '.join(str(row[n]) for n in names)} |")


if __name__ == "__main__":
    sys.exit(main())
