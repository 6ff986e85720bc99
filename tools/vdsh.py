"""One command for all tools.

    vdsh                        # lists them
    vdsh train --preset=mnist
    vdsh query --help
    vdsh benchmark search

`vdsh NAME ...` does what `python tools/NAME.py ...` does.
"""

import ast
import difflib
import importlib
import os
import pathlib
import sys
from collections.abc import Sequence

FOLDER = pathlib.Path(__file__).parent
HELP = ("-h", "--help", "help")


def commands() -> dict[str, str]:
    """What each tool does, by name; reads the files and runs none."""
    found = {}
    for path in sorted([*FOLDER.glob("*.py"), *FOLDER.glob("*/*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {getattr(node, "name", None) for node in tree.body}
        name = path.relative_to(FOLDER).with_suffix("").as_posix()
        if "main" in names and path.name != os.path.basename(__file__):
            text = ast.get_docstring(tree) or ""
            found[name] = text.partition("\n")[0]
    # Benchmarks come last.
    return dict(sorted(found.items(), key=lambda item: "/" in item[0]))


def overview() -> str:
    """The help: all commands."""
    found = commands()
    width = max(map(len, found))
    lines = [f"  {name:{width}}  {text}" for name, text in found.items()]
    return "\n".join(
        [
            "usage: vdsh COMMAND [--FLAG=VALUE ...]",
            "",
            "Trains, searches and exports hashing networks.",
            "",
            *lines,
            "",
            "`vdsh COMMAND --help` tells more of a command.",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool that the first word names; returns its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    # `benchmark search` and `benchmarks search` read as `benchmarks/search`.
    if argv and argv[0] in ("benchmark", "benchmarks"):
        rest = argv[1:2]
        argv[:2] = [w if w in HELP else f"benchmarks/{w}" for w in rest]
    if not argv or argv[0] in HELP:
        print(overview())
        return 0
    name, *rest = argv
    found = commands()
    if name not in found:
        near = difflib.get_close_matches(name, found, n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        print(
            f"error: Unknown command {name}.{hint} Commands: "
            f"{', '.join(found)}.",
            file=sys.stderr,
        )
        return 2
    module = importlib.import_module(f"vdsh_tf.tools.{name.replace('/', '.')}")
    return module.main(rest)


if __name__ == "__main__":
    sys.exit(main())
