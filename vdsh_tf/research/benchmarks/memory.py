"""Peak memory of a process, and functions that run in one of their own."""

import contextlib
import json
import subprocess
import sys

_CALL = """
import importlib, json, sys
from vdsh_tf.research.benchmarks import memory
name, function, args = json.loads(sys.argv[1])
result = getattr(importlib.import_module(name), function)(*args) or {}
print(json.dumps({**result, "peak_mb": memory.peak_mb()}))
"""


def peak_mb() -> float:
    """The most memory that this process has held, in MiB.

    The kernel's own mark (`VmHWM`) where there is one: `getrusage` starts at
    the size of the process that started this one.
    """
    with contextlib.suppress(OSError), open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def alone(module: str, function: str, *args) -> dict:
    """Calls a function of a module in a new process.

    Args:
        module: its name, as it is imported.
        function: name of a function that returns a dictionary, or None.
        *args: what JSON can hold.

    Returns:
        That dictionary, and `peak_mb` of the process.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CALL, json.dumps([module, function, args])],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"Step {function} must end with 0; it ended with "
            f"{done.returncode}. Its own message is above."
        )
    return json.loads(done.stdout.splitlines()[-1])
