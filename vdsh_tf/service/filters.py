"""Filters on payloads: text -> a small tree -> SQL with bound values.

    category = 3
    category in [3, 5] and not (price >= 10 or name = "old")
    author.name != "Ann" and archived = false

A field is a name, or names with dots between them for objects in objects. A
value is a number, text in quotes, true, false or null. Kinds are not mixed: a
number is never equal to, less or more than text, and of a field that an item
does not have only `= null` holds. Nothing of the text becomes SQL or Python.
"""

import json
import operator
import re
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

MOST_TEXT = 2000
MOST_DEPTH = 16
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    |(?P<sign><=|>=|!=|==|=|<|>|\(|\)|\[|\]|,)
    )""",
    re.VERBOSE | re.ASCII,
)
_WORDS = {"true": True, "false": False, "null": None}
_LARGEST = 2**63 - 1


class FilterError(ValueError):
    """A filter that cannot be read; the message says where and why."""


class Compare(NamedTuple):
    """`field sign value`."""

    field: str
    sign: str
    value: Any


class Among(NamedTuple):
    """`field in [values]`."""

    field: str
    values: tuple


class Not(NamedTuple):
    """`not part`."""

    part: "Node"


class Both(NamedTuple):
    """`part and part`, of two parts or more."""

    parts: "tuple[Node, ...]"


class Either(NamedTuple):
    """`part or part`, of two parts or more."""

    parts: "tuple[Node, ...]"


Node = Compare | Among | Not | Both | Either


def parse(text: str) -> Node:
    """Reads a filter.

    Raises:
        FilterError: it is none.
    """
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        raise FilterError(
            f"A filter must be text of up to {MOST_TEXT} characters, such as "
            f"'category = 3'. Received: {str(text)[:60]!r}."
        )
    reader = _Reader(text)
    node = reader.either(0)
    if reader.peek() is not None:
        reader.fail("'and', 'or' or the end")
    return node


def to_sql(node: Node, column: str = "payload") -> tuple[str, list]:
    """A condition on a column of JSON objects, and the values to bind."""
    if isinstance(node, Not):
        sql, values = to_sql(node.part, column)
        return f"(NOT {sql})", values
    if isinstance(node, Both | Either):
        word = "AND" if isinstance(node, Both) else "OR"
        made = [to_sql(part, column) for part in node.parts]
        # Side by side, not nested: SQLite bounds how deep it reads.
        sql = f" {word} ".join(part for part, _ in made)
        return f"({sql})", [v for _, values in made for v in values]
    if isinstance(node, Among):
        return _among_sql(node, column)
    return _compare_sql(node, column)


def _path(field):
    return "$." + ".".join(f'"{name}"' for name in field.split("."))


def _among_sql(node, column):
    """One IN for numbers and one for text: SQLite bounds how deep OR goes."""
    parts, values = [], []
    texts = [v for v in node.values if isinstance(v, str)]
    rest = [v for v in node.values if v is None or isinstance(v, bool)]
    numbers = [v for v in node.values if type(v) in (int, float)]
    for kinds, chosen in (
        ("('text')", texts),
        ("('integer','real')", numbers),
    ):
        if chosen:
            marks = ",".join("?" * len(chosen))
            parts.append(
                f"(ifnull(json_type({column}, ?), '') IN {kinds} "
                f"AND json_extract({column}, ?) IN ({marks}))"
            )
            values += [_path(node.field)] * 2 + chosen
    for value in dict.fromkeys(rest):
        sql, bound = _compare_sql(Compare(node.field, "=", value), column)
        parts.append(sql)
        values += bound
    return f"({' OR '.join(parts)})", values


def _compare_sql(node, column):
    path = _path(node.field)
    kind = f"json_type({column}, ?)"
    if node.value is None:
        # True of a field that is null, or that is not there.
        sql = f"(ifnull({kind}, 'null') = 'null')"
        return (sql if node.sign == "=" else f"(NOT {sql})"), [path]
    if isinstance(node.value, bool):
        word = "true" if node.value else "false"
        if node.sign == "=":
            return f"(ifnull({kind}, '') = ?)", [path, word]
        other = "false" if node.value else "true"
        return f"(ifnull({kind}, '') = ?)", [path, other]
    kinds = "('text')" if isinstance(node.value, str) else "('integer','real')"
    sign = "<>" if node.sign == "!=" else node.sign
    sql = (
        f"(ifnull({kind}, '') IN {kinds} "
        f"AND json_extract({column}, ?) {sign} ?)"
    )
    return sql, [path, path, node.value]


class _Reader:
    """Recursive descent over the tokens of a filter."""

    def __init__(self, text):
        self._text = text
        self._tokens = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None or match.end() == place:
                place += len(text[place:]) - len(text[place:].lstrip())
                self._tokens.append(("", text[place], place))
                break
            kind = match.lastgroup
            self._tokens.append((kind, match[kind], match.start(kind)))
            place = match.end()
        self._next = 0

    def peek(self):
        if self._next == len(self._tokens):
            return None
        return self._tokens[self._next]

    def word(self, *words):
        """Takes the next token if it is one of the words."""
        token = self.peek()
        if token and token[0] in ("name", "sign") and token[1].lower() in words:
            self._next += 1
            return token[1].lower()
        return None

    def fail(self, wanted):
        token = self.peek()
        found = "its end" if token is None else repr(token[1][:20])
        place = len(self._text) if token is None else token[2]
        raise FilterError(
            "A filter must read like 'category = 3 and not (price >= 10 or "
            f'name in ["a", "b"])\'. Received: {self._text[:80]!r}, where '
            f"{wanted} must stand at character {place + 1}, not {found}."
        )

    def either(self, depth):
        parts = [self.both(depth)]
        while self.word("or"):
            parts.append(self.both(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def both(self, depth):
        parts = [self.negated(depth)]
        while self.word("and"):
            parts.append(self.negated(depth))
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def negated(self, depth):
        if depth > MOST_DEPTH:
            raise FilterError(
                f"A filter may be nested {MOST_DEPTH} deep at most. Received: "
                f"{self._text[:80]!r}."
            )
        if self.word("not"):
            return Not(self.negated(depth + 1))
        if self.word("("):
            node = self.either(depth + 1)
            if not self.word(")"):
                self.fail("')'")
            return node
        return self.comparison()

    def comparison(self):
        token = self.peek()
        if token is None or token[0] != "name" or token[1].lower() in _WORDS:
            self.fail("the name of a field, 'not' or '('")
        self._next += 1
        field = token[1]
        if self.word("in"):
            return Among(field, self.values())
        sign = self.word("==", *COMPARISONS)
        if sign is None:
            self.fail("=, !=, <, <=, >, >= or in")
        sign = "=" if sign == "==" else sign
        place = self._next
        value = self.value()
        if (value is None or isinstance(value, bool)) and sign not in "!=":
            self._next = place
            self.fail(f"a number or text, which {sign} can compare,")
        return Compare(field, sign, value)

    def values(self):
        if not self.word("["):
            self.fail("'['")
        found = [self.value()]
        while self.word(","):
            found.append(self.value())
        if not self.word("]"):
            self.fail("',' or ']'")
        return tuple(found)

    def value(self):
        token = self.peek()
        kind, text = token[:2] if token else (None, "")
        if kind == "name" and text.lower() in _WORDS:
            value = _WORDS[text.lower()]
        elif kind == "text":
            value = self.unquoted(text)
        elif kind == "number":
            value = float(text) if set(text) & set(".eE") else int(text)
            if abs(value) > _LARGEST:
                self.fail(f"a number of at most {_LARGEST}")
        else:
            self.fail('a number, "text", true, false or null')
        self._next += 1
        return value

    def unquoted(self, text):
        inner = text[1:-1]
        if text[0] == "'":
            inner = inner.replace("\\'", "'")
            inner = re.sub(r'(?<!\\)"', r"\"", inner)
        try:
            value = json.loads(f'"{inner}"')
            value.encode()
            return value
        except ValueError:
            self.fail('text as in JSON, such as "a \\"b\\" c"')
