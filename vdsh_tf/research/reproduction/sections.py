"""Parts of the report: tables, verdicts, and how they read as Markdown."""

import csv
import dataclasses
import io
import os
from typing import Any
from typing import TypeVar

from vdsh_tf import files

AGREES = "agrees"
DIFFERS = "differs"
NOT_TESTABLE = "not testable here"
MISSING = "-"
_Value = TypeVar("_Value")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the numbers say about a statement of the paper.

    Attributes:
        statement: the paper's, rephrased.
        verdict: AGREES, DIFFERS or NOT_TESTABLE.
        why: the numbers, and the rule that was applied.
    """

    statement: str
    verdict: str
    why: str


def judge(statement: str, holds: bool | None, why: str) -> Verdict:
    """AGREES or DIFFERS; with None, points that the rule needs are missing."""
    if holds is None:
        return Verdict(
            statement, NOT_TESTABLE, f"missing: points of the rule. {why}"
        )
    return Verdict(statement, AGREES if holds else DIFFERS, why)


def complete(numbers: dict[Any, _Value | None]) -> dict[Any, _Value] | None:
    """The numbers that a rule needs, or None if any is missing."""
    known = {k: v for k, v in numbers.items() if v is not None}
    return known if len(known) == len(numbers) else None


def undecided(statements, why: str) -> list[Verdict]:
    """Verdicts whose rules need points that are missing."""
    return [judge(statement, None, why) for statement in statements]


def not_testable(statement: str, why: str) -> Verdict:
    """A statement that these data or this machine cannot test."""
    return Verdict(statement, NOT_TESTABLE, why)


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of text and numbers; None is a missing number.

    Attributes:
        name: of its CSV file.
        caption: what it shows.
        header: names of the columns.
        rows: cells.
        note: remarks below the table.
        digits: decimals of numbers.
    """

    name: str
    caption: str
    header: list[str]
    rows: list[list]
    note: str = ""
    digits: int = 3

    def markdown(self) -> str:
        lines = [
            f"**{self.caption}** ([{self.name}.csv]({self.name}.csv))",
            "",
            _row(self.header),
            _row(["---"] * len(self.header)),
        ]
        lines += [
            _row([cell_text(c, self.digits) for c in r]) for r in self.rows
        ]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines)

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header)
        for row in self.rows:
            writer.writerow(["" if c is None else c for c in row])
        return out.getvalue()


@dataclasses.dataclass(frozen=True)
class Section:
    """One figure in the report.

    Attributes:
        title: heading.
        paper: which figure of the paper, and what it shows.
        here: what was done here, and where it differs.
        plots: names of PNG files with their captions.
        tables, verdicts: in order.
    """

    title: str
    paper: str
    here: str
    plots: list[tuple[str, str]]
    tables: list[Table]
    verdicts: list[Verdict]

    def markdown(self, missing: list[str]) -> str:
        lines = [
            f"## {self.title}",
            "",
            f"*The paper:* {self.paper}",
            "",
            f"*Here:* {self.here}",
        ]
        if missing:
            lines += ["", missing_text(missing)]
        for file, caption in self.plots:
            vector = file.replace(".png", ".svg")
            lines += [
                "",
                f"![{caption}]({file})",
                "",
                f"{caption} ([vector]({vector}))",
            ]
        for table in self.tables:
            lines += ["", table.markdown()]
        lines += [
            "",
            _row(["the paper says", "verdict", "why"]),
            _row(["---"] * 3),
        ]
        lines += [
            _row([v.statement, f"**{v.verdict}**", v.why])
            for v in self.verdicts
        ]
        return "\n".join(lines)

    def write_tables(self, folder: str) -> None:
        for table in self.tables:
            path = os.path.join(folder, f"{table.name}.csv")
            files.write_text(path, table.csv())


def missing_text(missing: list[str]) -> str:
    """A warning that names the missing points."""
    shown = ", ".join(f"`{key}`" for key in missing[:8])
    more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    return (
        f"**missing: {len(missing)} points** ({shown}{more}); their numbers "
        f"are shown as {MISSING}."
    )


def cell_text(cell, digits: int = 3) -> str:
    """A cell as text; a missing number is a dash."""
    if cell is None:
        return MISSING
    if isinstance(cell, float):
        text = f"{cell:.{digits}f}"
        return text.replace("0.", ".", 1) if abs(cell) < 1 else text
    return str(cell)


def each(values: dict, form: str) -> str:
    """Names and numbers as a sentence."""
    return "; ".join(f"{k}: {form.format(v)}" for k, v in values.items()) + "."


def _row(cells):
    return "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"
