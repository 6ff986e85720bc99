"""Settings as frozen dataclasses: value, rule and meaning stated once.

A setting is one line of one class. Checks, command-line flags and their help
are derived from it; `CONTRIBUTING.md` adds one as an example.
"""

import dataclasses
import math
import numbers
import os
import secrets
from collections.abc import Callable
from typing import Any
from typing import NamedTuple


def require(ok: bool, name: str, value, rule: str, why: str) -> None:
    """Raises a ValueError that says what must hold, why, and what came."""
    if not ok:
        raise ValueError(
            f"`{name}` must be {rule}, {why}. Received: {name}={value!r}."
        )


def is_number(value) -> bool:
    """Whether `value` is a finite real number (a bool is not)."""
    return (
        isinstance(value, numbers.Real)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def is_count(value, least: int = 1) -> bool:
    """Whether `value` is an integer of at least `least` (a bool is not)."""
    return (
        isinstance(value, numbers.Integral)
        and not isinstance(value, bool)
        and int(value) >= least
    )


# Of a weight in float32: itself, its move and the two moments of Adam.
_BYTES_OF_A_WEIGHT = 4 * 4


def weight_bytes(layers: int, width: int, bits: int, inputs: int = 1) -> int:
    """Memory that the weights of a network take in training.

    Args:
        layers, width, bits: of the network.
        inputs: width of its input; 1 while it is not known.
    """
    if layers == 1:
        return _BYTES_OF_A_WEIGHT * inputs * bits
    hidden = inputs * width + (layers - 2) * width**2
    return _BYTES_OF_A_WEIGHT * (hidden + width * bits)


def check_memory(
    layers: int,
    width: int,
    bits: int,
    inputs: int = 1,
    available: int | None = None,
) -> None:
    """Refuses a network that cannot fit in memory, before any work.

    Args:
        layers, width, bits, inputs: see `weight_bytes`.
        available: bytes; default the memory of this machine.
    """
    available = available or _memory()
    need = weight_bytes(layers, width, bits, inputs)
    if available is not None and need > available:
        raise ValueError(
            f"`layers`={layers}, `width`={width} and `bits`={bits} must make "
            "a network that fits in memory. Its weights, with their moves and "
            f"moments, take about {need / 1e9:,.0f} GB, and there are "
            f"{available / 1e9:,.1f} GB. Make one of them smaller."
        )


def require_memory(
    need: float, what: str, cure: str = "", kind: type[Exception] = ValueError
) -> None:
    """Raises if so much memory is not free.

    Args:
        need: bytes.
        what: must fit in memory; the beginning of a sentence.
        cure: a sentence on what to do instead.
        kind: of the error.
    """
    # Not needed where an index is searched, or a server asked.
    import psutil

    free = psutil.virtual_memory().available
    if need > free:
        raise kind(
            f"{what} must fit in memory. Needed: {need / 2**30:,.1f} GiB, "
            f"free: {free / 2**30:,.1f} GiB. {cure}".rstrip()
        )


def _memory():
    """Bytes of memory of this machine; None where nobody says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def seed(value: int | None) -> int:
    """`value`, or a number drawn for None; raises unless it can be a seed."""
    if value is None:
        return secrets.randbelow(2**31)
    require(
        is_count(value, 0) and value < 2**32,
        "seed",
        value,
        "an integer from 0 to 4294967295 (2^32 - 1), or None",
        "which draws one: random generators take no other",
    )
    return int(value)


class Rule(NamedTuple):
    """What must hold of a setting, in words and as a test."""

    text: str
    why: str
    holds: Callable[[Any], bool]


COUNT = Rule("an integer >= 1", "or nothing is computed", is_count)
POSITIVE = Rule(
    "a number > 0",
    "or its sub-problem has no unique minimiser",
    lambda v: is_number(v) and v > 0,
)
NOT_NEGATIVE = Rule(
    "a number >= 0",
    "because it is a penalty, a distance or a rate",
    lambda v: is_number(v) and v >= 0,
)
SHARE = Rule(
    "a number between 0 and 1",
    "because it is a share of the way",
    lambda v: is_number(v) and 0 < v < 1,
)
SHARE_OR_ZERO = Rule(
    "a number >= 0 and < 1",
    "because it is a share",
    lambda v: is_number(v) and 0 <= v < 1,
)
SWITCH = Rule(
    "True or False", "as it is a switch", lambda v: isinstance(v, bool)
)
TEXT = Rule("text", "as it is a name", lambda v: isinstance(v, str))
FEW = Rule(
    "an integer from 1 to 100",
    "because each is written out in the graph, one after the other",
    lambda v: is_count(v) and v <= 100,
)
SCHEDULE = Rule(
    "online or full",
    "the two ways to run Algorithm 1",
    lambda v: v in ("online", "full"),
)
ANY = Rule("any value", "", lambda v: True)


def setting(default, rule: Rule, text: str, **metadata) -> Any:
    """A dataclass field that carries its rule and its meaning.

    `custom_args` is where `simple_parsing` looks for a flag's help.
    """
    flag = {"help": text, **metadata.pop("flag", {})}
    return dataclasses.field(
        default=default,
        metadata={"rule": rule, "custom_args": flag, **metadata},
    )


def check_settings(settings) -> None:
    """Checks every field of a dataclass against its rule.

    None is allowed where it is the default: it leaves the choice open.
    Numbers of NumPy become Python's, which every file format takes.
    """
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        rule = field.metadata.get("rule", ANY)
        if value is None and field.default is None:
            continue
        value = _plain(value)
        require(rule.holds(value), field.name, value, rule.text, rule.why)
        object.__setattr__(settings, field.name, value)


def _plain(value):
    """A number of NumPy as one of Python, anything else as it is."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return value.item()
    return value


class NotInAlgorithm:
    """Marks a setting that Algorithm 1 to the letter does not have."""


def solver_setting(rule: Rule, text: str, online, full=NotInAlgorithm) -> Any:
    """A setting of the solver, with the value that each schedule gives it."""
    # As for any other switch, the bare flag means true.
    flag = {"nargs": "?", "const": True} if rule is SWITCH else {}
    usual = {"online": online, "full": full}
    return setting(None, rule, text, usual=usual, flag=flag)


# What codes are for, and the weight of what they keep beside labels. A larger
# one finds more of classes without a label, at the cost of those with one.
GOALS = {"search": 0.1, "class": 0.0}


@dataclasses.dataclass(frozen=True)
class Solver:
    """Penalties and effort of the ADMM sub-problems.

    A setting that is None gets the schedule's usual value (`resolved`).
    """

    alpha_theta: float | None = solver_setting(
        NOT_NEGATIVE,
        "Weight penalty of the layers. The online schedule applies it to "
        "every batch as if the batch were all data.",
        online=0.0,
        full=0.0,
    )
    alpha_w: float | None = solver_setting(
        POSITIVE, "Weight penalty of the classifier.", online=1e-3, full=10.0
    )
    beta: float | None = solver_setting(
        POSITIVE, "Penalty of z_m = f_m.", online=10.0, full=0.1
    )
    gamma: float | None = solver_setting(
        POSITIVE,
        "Penalty of theta~_i = theta. Not given, it is set layer by layer "
        "so that a weight copy closes `copy_step` of the error.",
        online=None,
        full=None,
    )
    copy_step: float | None = solver_setting(
        SHARE,
        "Share of its error that a weight copy closes, when `gamma` is not "
        "given.",
        online=0.01,
        full=0.7,
    )
    code_steps: int | None = solver_setting(
        FEW, "Sub-gradient steps for each hidden code.", online=1, full=1
    )
    margin: float | None = solver_setting(
        NOT_NEGATIVE,
        "Distance that responses of the code layer keep from the threshold, "
        "on the side that the classifier asks for; 0 is the paper's "
        "objective.",
        online=0.05,
        full=0.0,
    )
    margin_weight: float | None = solver_setting(
        NOT_NEGATIVE,
        "Weight of the margin's term, in units of beta.",
        online=0.2,
        full=0.2,
    )
    sweeps: int | None = solver_setting(
        FEW, "Iterations of lines 5-13 on each batch.", online=1
    )
    shared_step: bool | None = solver_setting(
        SWITCH,
        "Whether the codes of a batch share one step length; false gives "
        "each sample its own line search.",
        online=True,
    )
    jacobi: bool | None = solver_setting(
        SWITCH,
        "Whether weight copies are solved for the codes from before the "
        "sweep, so that no sub-problem undoes what another has just done; "
        "false is the paper's order.",
        online=True,
    )
    preserve_error_norm: bool | None = solver_setting(
        SWITCH,
        "Whether a layer hands down an error as long as the one it received, "
        "which saves the product of a line search; false is an exact line "
        "search. Not given: true where an optimizer rescales the moves.",
        online=None,
    )
    mean_damping: float | None = solver_setting(
        NOT_NEGATIVE,
        "Damping > 0 of a metric in gamma's term that penalises moves along "
        "the mean of a layer's inputs; 0 is the paper's Euclidean one.",
        online=0.0,
    )
    goal: str | None = solver_setting(
        Rule(
            " or ".join(GOALS),
            "to say what codes are for",
            lambda v: v in GOALS,
        ),
        "What codes are for. search: to rank items that were not trained on, "
        "classes without a label among them. class: codes of one class as "
        "equal as can be, to look up balls of radius 2; the paper's "
        "objective.",
        online="search",
        full="class",
    )
    preserve: float | None = solver_setting(
        NOT_NEGATIVE,
        "Weight of what codes predict beside the labels: principal components "
        "of the input. Not given, `goal` says it: "
        + ", ".join(f"{value:g} for {name}" for name, value in GOALS.items())
        + ".",
        online=None,
        full=None,
    )
    preserve_rank: int | None = solver_setting(
        COUNT, "Number of these components.", online=32, full=32
    )

    def __post_init__(self):
        check_settings(self)
        several = (self.sweeps or 1) > 1
        require(
            not (several and (self.jacobi or self.preserve_error_norm)),
            "sweeps",
            self.sweeps,
            "1 with `jacobi` or `preserve_error_norm`",
            "because the next sweep needs the copies' own inputs and errors",
        )
        require(
            self.jacobi is not False or not self.mean_damping,
            "mean_damping",
            self.mean_damping,
            "0 without `jacobi`",
            "because it is taken from the codes before the sweep",
        )
        require(
            not (self.preserve_error_norm and (self.code_steps or 1) > 1),
            "preserve_error_norm",
            self.preserve_error_norm,
            "False with several code steps",
            "because further steps would lengthen the error again",
        )
        require(
            not self.preserve_error_norm or self.jacobi is not False,
            "preserve_error_norm",
            self.preserve_error_norm,
            "False without `jacobi`",
            "because the paper's order needs the product that it saves",
        )

    @classmethod
    def make(cls, given: "Solver | dict | None") -> "Solver":
        """From what `VDSH` takes: a Solver, its fields, or None."""
        fields = {field.name for field in dataclasses.fields(cls)}
        if isinstance(given, dict) and set(given) <= fields:
            return cls(**given)
        if isinstance(given, Solver):
            return given
        require(
            given is None,
            "solver",
            given,
            "a Solver, a dictionary of its fields, or None",
            "to say how the sub-problems are solved",
        )
        return cls()

    def resolved(self, schedule: str) -> "Solver":
        """The same with the schedule's usual value for what is None."""
        values = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            usual = field.metadata["usual"][schedule]
            if usual is NotInAlgorithm:
                require(
                    value is None,
                    field.name,
                    value,
                    f"left alone with the {schedule} schedule",
                    "which is Algorithm 1 to the letter",
                )
                usual = None
            values[field.name] = usual if value is None else value
        if values["preserve"] is None:
            values["preserve"] = GOALS[values["goal"]]
        if (self.sweeps or 1) > 1:
            values["jacobi"] = False
        return Solver(**values)


# Names of 0.1.0, for files that it wrote.
RENAMED = {
    "keep_error": "preserve_error_norm",
    "input_metric": "mean_damping",
}


def solver_from_0_1(values: dict) -> tuple[Solver, dict]:
    """Takes the solver's settings out of a flat dictionary of 0.1.0.

    Returns:
        The solver, and what is left of the dictionary.
    """
    values = {RENAMED.get(name, name): v for name, v in values.items()}
    known = {field.name for field in dataclasses.fields(Solver)}
    own = {name: v for name, v in values.items() if name in known}
    rest = {name: v for name, v in values.items() if name not in known}
    if rest.get("schedule") == "full":
        own = {
            field.name: own.get(field.name)
            for field in dataclasses.fields(Solver)
            if field.metadata["usual"]["full"] is not NotInAlgorithm
        }
    # What codes keep beside labels came later.
    own.pop("preserve", None)
    return Solver(**{**own, "goal": "class"}), rest
