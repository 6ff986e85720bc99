"""Files that are written atomically: complete, or as they were before."""

import contextlib
import json
import os
from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yields a path beside `path` to write to, then renames it to `path`.

    An error, or the end of the process, leaves the old file as it was. The
    temporary name keeps the ending, because some writers insist on it.
    """
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    partial = os.path.join(folder, f".{stem}.partial-{os.getpid()}{ending}")
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
