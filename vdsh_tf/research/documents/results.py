"""Tables of measured numbers, from the files that keep them.

`docs/results/contents.json` says which files make the page, in which sections,
and which of their numbers the README repeats. A file has

    title, protocol, command, seeds, measured    what was measured, and how
    columns, rows         the first cell of a row is its name; a number, or a
                          list of numbers, is shown with `digits` digits
    notes                 sentences below the table

Instead of `columns` and `rows` it may have `raw`, a file in `raw/` for each
column, as `tools/benchmarks/fit.py` writes it ({method: [metrics per seed]}):
means over seeds are put into `cell`, such as "{map} ({trained.map})", and
`names` gives methods their titles. A file of that raw form without anything
else makes a table, too.
"""

import json
import os
import re
import statistics
from typing import Any
from typing import NamedTuple

from vdsh_tf.research.reproduction import style

CONTENTS = "contents.json"
RAW = "raw"
BARE = {
    "mAP": "{map}",
    "mAP in what was trained on": "{trained.map}",
    "P@r2": "{precision_r2}",
    "R@r2": "{recall_r2}",
}
ABOUT = ("protocol", "command", "seeds", "measured")


class Table(NamedTuple):
    """A table as text.

    Attributes:
        title: its heading.
        about: `ABOUT` by name, where known.
        columns: headings.
        rows: cells.
        notes: sentences below it.
    """

    title: str
    about: dict[str, str]
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]

    def cell(self, row: str, column: str) -> str:
        """A cell by the names of its row and column."""
        names = [cells[0] for cells in self.rows]
        if row not in names or column not in self.columns:
            raise ValueError(
                f"The table {self.title!r} must have a row {row!r} and a "
                f"column {column!r}. It has {names} and {self.columns}."
            )
        return self.rows[names.index(row)][self.columns.index(column)]


def read_table(folder: str, name: str) -> Table:
    """Reads the file of one table."""
    data = _read(os.path.join(folder, f"{name}.json"))
    if "title" not in data:
        return _bare(name, data)
    columns, rows = _stated(data) if "rows" in data else _raw(folder, data)
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(
                f"{name}.json: every row must have {len(columns)} cells. "
                f"Received: {row}."
            )
    about = {key: data[key] for key in ABOUT if data.get(key, "-") != "-"}
    return Table(data["title"], about, columns, rows, data.get("notes", []))


def page(folder: str) -> str:
    """The page of all results, in Markdown."""
    contents = _read(os.path.join(folder, CONTENTS))
    lines = [f"# {contents['title']}", "", *_paragraphs(contents["intro"])]
    for section in contents["sections"]:
        lines += [f"## {section['title']}", ""]
        lines += _paragraphs(section.get("intro", []))
        for name in section["tables"]:
            lines += _markdown(read_table(folder, name))
    return "\n".join(lines).rstrip("\n") + "\n"


def readme_table(folder: str) -> str:
    """The README's table, whose numbers are those of the page."""
    chosen = _read(os.path.join(folder, CONTENTS))["readme"]
    rows = [
        [cell if isinstance(cell, str) else _pick(folder, cell) for cell in row]
        for row in chosen["rows"]
    ]
    return "\n".join(_grid(chosen["columns"], rows))


def unlisted(folder: str) -> list[str]:
    """Files that are on no page, or listed without being there."""
    contents = _read(os.path.join(folder, CONTENTS))
    listed = [n for part in contents["sections"] for n in part["tables"]]
    there = [name.removesuffix(".json") for name in os.listdir(folder)]
    there = [n for n in there if n not in (RAW, "contents")]
    return sorted(set(there) ^ set(listed)) + sorted(
        {n for n in listed if listed.count(n) > 1}
    )


def _stated(data):
    digits = data.get("digits", 3)
    rows = [[_text(cell, digits) for cell in row] for row in data["rows"]]
    if "raw" in data:
        raise ValueError(
            f"{data['title']!r} must have its numbers once. Received: `rows` "
            "and `raw`. Remove one of them."
        )
    return data["columns"], rows


def _raw(folder, data):
    names, digits = data.get("names", {}), data.get("digits", 3)
    found = {
        column: _read(os.path.join(folder, RAW, name))
        for column, name in data["raw"].items()
    }
    methods = list(dict.fromkeys(m for part in found.values() for m in part))
    rows = [
        [
            _title(method, names),
            *(
                fill(data["cell"], part.get(method, []), digits)
                for part in found.values()
            ),
        ]
        for method in methods
    ]
    return [data.get("first", "method"), *found], rows


def _bare(name, data):
    rows = [
        [_title(m, {}), *(fill(cell, seeds, 3) for cell in BARE.values())]
        for m, seeds in data.items()
    ]
    count = max(len(seeds) for seeds in data.values())
    about = {"protocol": f"Mean over {count} seeds."}
    title = name.replace("_", " ").capitalize()
    return Table(title, about, ["method", *BARE], rows, [])


def fill(cell: str, seeds: list[dict], digits: int) -> str:
    """Means over seeds, put into a text such as "{map} / {recall_r2}".

    Where a method has no such number, the text ends before it.
    """
    out = ""
    for before, key, after in re.findall(r"([^{]*)\{([\w.]+)\}([)\]]?)", cell):
        values = [_find(metrics, key) for metrics in seeds]
        if not values or any(value is None for value in values):
            break
        out += before + number(statistics.mean(values), digits) + after
    return out


def number(value: float, digits: int) -> str:
    """As the documents write numbers: .904, without the zero."""
    return f"{value:.{digits}f}".removeprefix("0")


def _find(metrics, key):
    value: Any = metrics
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _title(method, names):
    return names.get(method) or style.TITLES.get(method, method)


def _text(cell, digits):
    if isinstance(cell, list):
        return " / ".join(_text(part, digits) for part in cell)
    if isinstance(cell, float):
        return number(cell, digits)
    return str(cell)


def _pick(folder, place):
    """Some numbers of a cell: {"table", "row", "column", "parts"}."""
    table = read_table(folder, place["table"])
    cells = [
        table.cell(place["row"], column)
        for column in place["column"].split("+")
    ]
    numbers = re.findall(r"\d*\.\d+", " ".join(cells))
    return " / ".join(numbers[i] for i in place["parts"])


def _markdown(table):
    about = dict(table.about)
    lines = [f"### {table.title}", ""]
    lines += _paragraphs([about.pop("protocol", "")])
    lines += [*_grid(table.columns, table.rows), ""]
    lines += _paragraphs(table.notes)
    if "command" in about:
        lines += ["```", about.pop("command"), "```", ""]
    small = [f"{key}: {value}" for key, value in about.items()]
    return [*lines, *_paragraphs(["; ".join(small)])]


def _paragraphs(texts):
    return [line for text in texts if text for line in (text, "")]


def _grid(columns, rows):
    return [
        f"| {' | '.join(cells)} |"
        for cells in (columns, ["---"] * len(columns), *rows)
    ]


def _read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)
