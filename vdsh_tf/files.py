"""Files that are written atomically: complete, or as they were before."""

import contextlib
import json
import os
import platform
import re
import threading
import time
from collections.abc import Iterator

# A file of another machine's process, untouched for so long, is left over.
_A_DAY = 24 * 3600
_held = threading.local()


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yields a path beside `path` to write to, then renames it to `path`.

    An error, or the end of the process, leaves the old file as it was. The
    temporary name keeps the ending, because some writers insist on it. What a
    killed process left beside `path` is removed.
    """
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    _remove_left(folder or os.curdir, stem, ending)
    writer = f"{os.getpid()}-{_machine()}"
    partial = os.path.join(folder, f".{stem}.partial-{writer}{ending}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)


def write_text(path: str, text: str) -> None:
    """Writes a text file atomically."""
    with replacing(path) as partial, open(partial, "w") as f:
        f.write(text)


def write_json(path: str, data) -> None:
    """Writes JSON for people to read, atomically."""
    write_text(path, json.dumps(data, indent=2) + "\n")


@contextlib.contextmanager
def locked(path: str, timeout: float = 0) -> Iterator[None]:
    """Keeps other processes and threads that lock `path` out meanwhile.

    For what is read, changed and written: the last writer would undo the
    others' work. The lock ends with its process, however that ends, and may be
    taken again inside by the thread that has it. It is a file beside `path`,
    gone afterwards.

    Args:
        path: file or folder that is to be written.
        timeout: seconds to wait for another to finish.

    Raises:
        RuntimeError: another one is still writing.
    """
    # Not needed to write files, which everything does.
    import filelock

    folder, name = os.path.split(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"The folder of {path} must exist, or it cannot be written. "
            "Create it first, or name another."
        )
    place = os.path.join(folder, f".{name}.lock")
    mine = _held.__dict__.setdefault("places", set())
    if place in mine:
        yield
        return
    lock = filelock.FileLock(place)
    try:
        lock.acquire(timeout=timeout)
    except filelock.Timeout as error:
        raise RuntimeError(
            f"Only one process may write {path} at a time, or work is lost, "
            "and another one does now. Wait until it has finished, and try "
            "again."
        ) from error
    mine.add(place)
    try:
        yield
    finally:
        mine.remove(place)
        # Removed while it is held: a process that has it open already finds,
        # when it gets the lock, that the file has no name, and does not use
        # it. Windows removes no open file; there, the release does it.
        with contextlib.suppress(OSError):
            os.remove(place)
        lock.release()


def _machine():
    return re.sub(r"\W", "_", platform.node()) or "local"


def _remove_left(folder, stem, ending):
    """Removes what dead processes left of a file of this name."""
    pattern = re.compile(
        rf"\.{re.escape(stem)}\.partial-(\d+)(?:-(\w+))?{re.escape(ending)}"
    )
    # A folder that is missing is for the writer to complain of.
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            match = pattern.fullmatch(name)
            path = os.path.join(folder, name)
            if match and _is_left(path, int(match[1]), match[2]):
                with contextlib.suppress(OSError):
                    os.remove(path)


def _is_left(path, process, machine):
    if machine is not None and machine != _machine():
        return time.time() - os.path.getmtime(path) > _A_DAY
    # Elsewhere, signal 0 is not a question but an end.
    if os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
