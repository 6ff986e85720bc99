"""Results appear atomically: built beside, checked, then renamed."""

import contextlib
import glob
import os
import shutil
from collections.abc import Iterator

import filelock

_PREFIX = ".partial-"
_LOCK = ".export.lock"


@contextlib.contextmanager
def folder(out: str) -> Iterator[str]:
    """Yields an empty folder inside `out`, and removes it afterwards.

    Whatever a killed export left there is removed first. A lock keeps two
    exports from writing to one place; it ends with the process that holds it.

    Raises:
        OSError: `out` cannot be written.
        RuntimeError: another export is writing there.
    """
    existed = os.path.isdir(out)
    with contextlib.ExitStack() as undo:
        try:
            os.makedirs(out, exist_ok=True)
            if not existed:
                undo.callback(_remove_if_empty, out)
            undo.enter_context(_locked(out))
            for left in glob.glob(f"{glob.escape(out)}/{_PREFIX}*"):
                shutil.rmtree(left)
            stage = os.path.join(out, f"{_PREFIX}{os.getpid()}")
            os.mkdir(stage)
        except OSError as error:
            raise OSError(
                "The output folder must be one that can be made and written. "
                f"Received: out={out!r}. Give another one, or get its owner's "
                f"permission. Cause: {error}"
            ) from error
        undo.callback(shutil.rmtree, stage, ignore_errors=True)
        yield stage


def next_version(base: str) -> int:
    """Number after the largest version folder in `base`."""
    names = os.listdir(base) if os.path.isdir(base) else []
    return max((int(n) for n in names if n.isdecimal()), default=0) + 1


def publish_version(built: str, base: str) -> str:
    """Renames the folder `built` to the next version in `base`."""
    os.makedirs(base, exist_ok=True)
    target = os.path.join(base, str(next_version(base)))
    os.rename(built, target)
    return target


@contextlib.contextmanager
def _locked(out):
    """Holds the lock of a folder; its file is gone afterwards."""
    path = os.path.join(out, _LOCK)
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise RuntimeError(
            f"Only one export may write to {out!r} at a time, and another "
            "one does now. Wait for it, or write to another folder."
        ) from error
    try:
        yield
    finally:
        # Removed while it is held: a process that has it open already finds,
        # when it gets the lock, that the file has no name, and does not use
        # it. Windows removes no open file; there, the release does it.
        with contextlib.suppress(OSError):
            os.remove(path)
        lock.release()


def _remove_if_empty(path):
    with contextlib.suppress(OSError):
        os.rmdir(path)
