"""Results appear atomically: built beside, checked, then renamed."""

import contextlib
import glob
import os
import shutil
from collections.abc import Iterable
from collections.abc import Iterator

import filelock

# Name of what is a folder, with one folder per version.
FOLDER = "saved_model"
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


def check_targets(out: str, names: Iterable[str]) -> None:
    """Raises if one of the files or folders cannot take its place in `out`.

    Renames follow each other: the last must not fail when the first are done.
    """
    for name in names:
        path = os.path.join(out, name)
        is_folder = name == FOLDER
        if os.path.lexists(path) and os.path.isdir(path) != is_folder:
            kind = ("file", "folder")
            raise OSError(
                f"{path} must be a {kind[is_folder]}, which an export writes "
                f"to; it is a {kind[not is_folder]}. Nothing was written. "
                "Remove it, or give another folder."
            )
        if is_folder and os.path.isdir(path) and not os.access(path, os.W_OK):
            raise OSError(
                f"{path} must be a folder that can be written. Nothing was "
                "written."
            )


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
