"""Command-line flags of a dataclass: one for each field, parsed by type.

The fields are `vdsh_tf.config.setting`s, which carry help and rule;
`simple_parsing` makes the flags. Nested dataclasses become groups of
`--help`, and their names are flat. `--x=v` and `--x v` mean the same; a switch
is `--x`, `--x=true`, `--x=false` or `--nox`.
"""

import argparse
import dataclasses
import difflib
import functools
import inspect
import types
import typing
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import simple_parsing
from simple_parsing.wrappers import DataclassWrapper

from vdsh_tf import config

HELP = ("-h", "--help")
_METAVARS = {int: "N", float: "NUMBER", str: "TEXT", bool: "true|false"}


class UsageError(Exception):
    """The command line does not fit the flags."""


class HelpShown(Exception):  # noqa: N818
    """The help was asked for and printed; there is nothing else to do."""


class Flag(NamedTuple):
    """A field that is a flag, with its default and its group of the help."""

    field: dataclasses.Field
    default: Any
    group: str
    about: str


def parse(defaults: Any, doc: str, prog: str, argv: Sequence[str]) -> Any:
    """Puts the flags of a command line over defaults.

    Args:
        defaults: a frozen dataclass, or several in a tuple. One may have a
            class attribute `FIRST`, names of flags to show first in the help.
        doc: what the help begins with.
        prog: how the program is called.
        argv: the command line.

    Returns:
        The same, with the values that were given.

    Raises:
        UsageError: for an unknown flag, or a value of the wrong type.
        HelpShown: after `--help`.
        ValueError: for a value that breaks its setting's rule.
    """
    parts = defaults if isinstance(defaults, tuple) else (defaults,)
    flags = [flag for part in parts for flag in _walk(part, "flags")]
    first = [n for part in parts for n in getattr(part, "FIRST", ())]
    parser = _make_parser(_grouped(flags, first), doc, prog)
    if set(HELP) & set(argv):
        parser.print_help()
        raise HelpShown
    given = _given(parser, flags, argv)
    made = tuple(_replaced(part, given) for part in parts)
    for part in made:
        _check(part)
    return made if isinstance(defaults, tuple) else made[0]


def peek(names: Sequence[str], argv: Sequence[str]) -> list[str | None]:
    """Values of text flags, before the other flags are known."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    for name in names:
        parser.add_argument(f"--{name}")
    known, _ = parser.parse_known_args(list(argv))
    return [getattr(known, name) for name in names]


def texts(value: str) -> tuple[str, ...]:
    """Reads `a,b,c`, the type of a flag that holds a list."""
    return tuple(part for part in value.split(",") if part)


def integers(value: str) -> tuple[int, ...]:
    """Reads `8,16,48`, the type of a flag that holds a list of integers."""
    try:
        return tuple(int(part) for part in texts(value))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            "it must be integers with commas between them, such as 8,16,48. "
            f"Received: {value}."
        ) from error


# Options of `setting(flag=...)` that several tools need.
FILE = {"metavar": "FILE"}
FOLDER = {"metavar": "FOLDER"}
NAME = {"metavar": "NAME"}
URI = {"metavar": "URI"}
TEXTS = {"type": texts, "metavar": "NAME,NAME"}
INTEGERS = {"type": integers, "metavar": "N,N"}


class _Parser(simple_parsing.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        raise UsageError(f"{message.removeprefix('argument ').rstrip('.')}.")


class _Group(DataclassWrapper):
    """A group of flags, under the name that its dataclass was given."""

    @property
    def title(self) -> str:
        return self.dataclass.__name__

    @property
    def description(self) -> Any:
        return self.dataclass.__doc__ or None


def _walk(part: Any, group: str, about: str = "") -> Iterator[Flag]:
    """All fields, those of nested dataclasses included."""
    nested = []
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if dataclasses.is_dataclass(value):
            nested.append((field.name, value))
        elif "custom_args" in field.metadata:
            yield Flag(field, value, group, about)
    for name, value in nested:
        doc = inspect.getdoc(type(value)) or ""
        yield from _walk(value, name, doc.partition("\n")[0])


def _grouped(flags: list[Flag], first: list[str]) -> dict:
    """Flags by group: those of `first` in their order, then the rest."""
    by_name = {flag.field.name: flag for flag in flags}
    chosen = [by_name[name] for name in first]
    groups = {("flags", ""): chosen} if first else {}
    for flag in flags:
        if flag not in chosen:
            key = (flag.group, flag.about)
            groups.setdefault(key, []).append(flag)
    return groups


def _make_parser(groups: dict, doc: str, prog: str) -> _Parser:
    parser = _Parser(
        prog=prog,
        usage=f"{prog} [--FLAG=VALUE ...]",
        description=doc.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_option_string_dash_variants=simple_parsing.DashVariant.UNDERSCORE,
        add_help=False,
        allow_abbrev=False,
    )
    for number, ((title, about), flags) in enumerate(groups.items()):
        fields = [(f.field.name, f.field.type, _field(f)) for f in flags]
        group = dataclasses.make_dataclass(title, fields)
        group.__doc__ = about
        # With this default, a group has the flags that were given only.
        nothing: Any = argparse.SUPPRESS
        parser.add_arguments(
            group,
            dest=f"group{number}",
            default=nothing,
            dataclass_wrapper_class=_Group,
        )
    return parser


def _field(flag: Flag) -> Any:
    """The field with all that its flag needs."""
    options = dict(flag.field.metadata["custom_args"])
    kind = _kind(flag.field)
    shown = _default_text(flag)
    text = options["help"] + (f" (default: {shown})" if shown else "")
    options["help"] = text.replace("%", "%%")
    if kind is bool:
        options.update(action="store", nargs="?", const=True)
        options["type"] = simple_parsing.utils.str2bool
    else:
        options["nargs"] = None
    if "type" in options:
        options["type"] = _explained(options["type"])
    if "choices" not in options:
        options.setdefault("metavar", _metavar(flag.field.name, kind))
    default = None if flag.default is None else flag.field.default
    return dataclasses.field(default=default, metadata={"custom_args": options})


def _kind(field: dataclasses.Field) -> Any:
    """The type of a field's values, None aside."""
    if not isinstance(field.type, types.UnionType):
        return field.type
    return next(t for t in typing.get_args(field.type) if t is not type(None))


def _metavar(name: str, kind: Any) -> str:
    endings = {"_dir": "FOLDER", "path": "FILE"}
    named = (v for end, v in endings.items() if name.endswith(end))
    return next(named, _METAVARS.get(kind, "TEXT"))


def _default_text(flag: Flag) -> str:
    """What the help says of the default; nothing where it says enough."""
    if flag.default is True:
        return f"true; --no{flag.field.name} for false"
    if flag.default is not None:
        return "" if flag.default is False else _value_text(flag.default)
    usual = {
        schedule: _value_text(value)
        for schedule, value in flag.field.metadata.get("usual", {}).items()
        if value not in (None, config.NotInAlgorithm)
    }
    if len(usual) > 1 and len(set(usual.values())) == 1:
        return usual.popitem()[1]
    return ", ".join(f"{text} {name}" for name, text in usual.items())


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _explained(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same function, with errors whose text argparse shows."""

    @functools.wraps(convert)
    def wrapped(text):
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return wrapped


def _given(parser, flags, argv) -> dict[str, Any]:
    """Values of the flags on the command line, by name."""
    switches = {f.field.name for f in flags if _kind(f.field) is bool}
    argv = [_positive(text, switches) for text in argv]
    namespace, unknown = parser.parse_known_args(argv)
    if unknown:
        _refuse(unknown[0], [flag.field.name for flag in flags])
    given = {}
    for values in vars(namespace).values():
        given.update(values)
    return given


def _positive(text: str, switches: set[str]) -> str:
    """`--nox` as `--x=false`, and anything else as it is."""
    name = text.removeprefix("--no")
    return f"--{name}=false" if text != name and name in switches else text


def _refuse(text, names) -> typing.NoReturn:
    if not text.startswith("--"):
        raise UsageError(f"Unknown arguments: {text}.")
    name = text.removeprefix("--").partition("=")[0]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean --{near[0]}?" if near else ""
    raise UsageError(f"Unknown flag --{name}.{hint}")


def _replaced(part, given):
    """The dataclass with the values that were given, nested ones as well."""
    changes = {}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if dataclasses.is_dataclass(value):
            made = _replaced(value, given)
            if made is not value:
                changes[field.name] = made
        elif field.name in given and "custom_args" in field.metadata:
            changes[field.name] = given[field.name]
    return dataclasses.replace(part, **changes) if changes else part


def _check(part):
    """Checks a tool's own flags; nested settings have checked themselves."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        rule = field.metadata.get("rule", config.ANY)
        if value is not None and not rule.holds(value):
            raise ValueError(
                f"--{field.name} must be {rule.text}, {rule.why}. "
                f"Received: {value}."
            )
