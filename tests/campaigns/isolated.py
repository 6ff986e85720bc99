"""Runs a function in a process of its own: what it says, takes, or breaks."""

import ctypes
import json
import os
import select
import signal
from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """What became of a call.

    Attributes:
        verdict: what the function returned, or "hang", "crash: SIGNAL" or
            "traceback: ERROR".
        peak: bytes of memory that it took at most, beyond what there was.
    """

    verdict: str
    peak: int


def call(
    function: Callable[[], str],
    seconds: float = 30,
    warm: Callable[[], object] = lambda: None,
) -> Outcome:
    """Calls a function in a copy of this process, and waits for it.

    Args:
        function: what to call.
        seconds: after which it hangs.
        warm: called before, so that the memory of the code that both run is
            not counted.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(function, warm, writer)
    os.close(writer)
    try:
        if not select.select([reader], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Outcome("hang", 0)
        with os.fdopen(os.dup(reader)) as file:
            text = file.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            return Outcome(f"crash: {name}", 0)
        return Outcome(*json.loads(text))
    finally:
        os.close(reader)


def _answer(function, warm, writer):
    code = 1
    try:
        # What was freed is given back, or it would be used again, uncounted.
        ctypes.CDLL(None).malloc_trim(0)
        warm()
        # The highest use of memory so far is forgotten.
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        before = _memory("VmRSS")
        try:
            verdict = function()
        except BaseException as error:
            verdict = f"traceback: {type(error).__name__}: {error}"
        peak = max(0, _memory("VmHWM") - before)
        os.write(writer, json.dumps([verdict[:500], peak]).encode())
        code = 0
    finally:
        os._exit(code)


def _memory(name):
    with open("/proc/self/status") as f:
        line = next(line for line in f if line.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])
