"""Files by path, folder, pattern or URL: here by themselves, else by fsspec."""

import glob
import os
from collections.abc import Callable
from typing import IO
from typing import Any
from typing import NamedTuple

_WILD = "*?["
# What file systems call the time or the name of a file's contents.
_VERSIONS = ("ETag", "etag", "mtime", "LastModified", "updated", "created")


class File(NamedTuple):
    """A file that can be opened and watched for changes.

    Attributes:
        name: path or URL.
        system: fsspec's file system; None for one of this machine.
    """

    name: str
    system: Any = None

    def open(self) -> IO[bytes]:
        """Opens it for reading, with `seek`."""
        if self.system is None:
            return open(self.name, "rb")
        return self.system.open(self.name, "rb")

    def stamp(self) -> str:
        """Size and time: another text after a change.

        Raises:
            FileNotFoundError: it is gone.
        """
        if self.system is None:
            found = os.stat(self.name)
            return f"{found.st_size}-{found.st_mtime_ns}"
        about = self.system.info(self.name)
        version = next((about[k] for k in _VERSIONS if k in about), "")
        return f"{about['size']}-{version}"

    def with_name(self, change: Callable[[str], str]) -> "File":
        """Another file of the same file system."""
        return self._replace(name=change(self.name))


def is_url(path: str) -> bool:
    """Whether fsspec is needed to read it."""
    return "://" in path


def find(path: str) -> list[File]:
    """All files of a path, a folder, a pattern or a URL, in order of name.

    Hidden ones (`.name`, `_name`) are left out, as Parquet readers do.
    """
    if not is_url(path):
        names, system = _local(path), None
    else:
        names, system = _remote(path)
    shown = [n for n in names if os.path.basename(n)[:1] not in (".", "_")]
    if not shown:
        raise FileNotFoundError(
            "There must be at least one file of rows. Received: "
            f"path={path!r}, which names none. Quote a pattern, so that the "
            "shell leaves it alone."
        )
    return [File(name, system) for name in sorted(shown)]


def _local(path):
    if os.path.isdir(path):
        path = os.path.join(glob.escape(path), "*")
    elif os.path.isfile(path):
        return [os.path.abspath(path)]
    found = glob.glob(path, recursive=True)
    return [os.path.abspath(name) for name in found if os.path.isfile(name)]


def _remote(url):
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(
            "URLs need fsspec, which is not installed. Run "
            "`pip install 'vdsh_tf[shards]'`, or `pip install fsspec`."
        ) from error
    try:
        system, path = fsspec.core.url_to_fs(url)
        if not any(sign in path for sign in _WILD):
            if system.isfile(path):
                return [system.unstrip_protocol(path)], system
            path = f"{path.rstrip('/')}/*"
        found = [n for n in system.glob(path) if system.isfile(n)]
        return [system.unstrip_protocol(name) for name in found], system
    except (ValueError, OSError, ImportError) as error:
        raise OSError(
            f"{url} must be a URL that fsspec can read. Cause: "
            f"{type(error).__name__}: {error}"
        ) from error
