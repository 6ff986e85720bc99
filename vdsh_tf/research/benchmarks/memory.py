"""Peak memory of a process."""

import contextlib


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
