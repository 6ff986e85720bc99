"""Pages, or parts of pages, that are generated."""

import os
import re
from collections.abc import Callable

from vdsh_tf.research.documents import results
from vdsh_tf.research.documents import settings

HEAD = (
    "<!-- Made by `python tools/results.py` from docs/results/*.json: change "
    "those. -->\n\n"
)


def replace_block(text: str, name: str, body: str) -> str:
    """Puts `body` between the marks of a generated part.

    The marks are `<!-- generated: NAME -->` and `<!-- end: NAME -->`.
    """
    begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    pattern = f"{re.escape(begin)}.*?{re.escape(end)}"
    if len(re.findall(pattern, text, re.DOTALL)) != 1:
        raise ValueError(f"The text must have {begin} and {end} once each.")
    made = f"{begin}\n\n{body}\n\n{end}"
    return re.sub(pattern, lambda _: made, text, flags=re.DOTALL)


def made(root: str) -> dict[str, str]:
    """All pages with generated parts, by path, as they should read."""
    folder = os.path.join(root, "docs", "results")
    blocks: dict[str, dict[str, Callable[[], str]]] = {
        "README.md": {"results": lambda: results.readme_table(folder)},
        "docs/training.md": {
            "presets": settings.presets_table,
            "flags": settings.flags_table,
        },
    }
    pages = {"docs/results.md": HEAD + results.page(folder)}
    for path, parts in blocks.items():
        with open(os.path.join(root, path), encoding="utf-8") as f:
            text = f.read()
        for name, make in parts.items():
            text = replace_block(text, name, make())
        pages[path] = text
    return pages


def stale(root: str) -> dict[str, str]:
    """Those of `made` that read otherwise at present."""
    found = {}
    for path, text in made(root).items():
        full = os.path.join(root, path)
        if not os.path.exists(full) or _read(full) != text:
            found[path] = text
    return found


def _read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()
