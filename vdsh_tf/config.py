"""Settings as frozen dataclasses, checked when made; presets live beside."""

import dataclasses
import math


def require(ok: bool, name: str, value, rule: str, why: str) -> None:
    """Raises a ValueError that says what must hold, why, and what came."""
    if not ok:
        raise ValueError(
            f"`{name}` must be {rule}, {why}. Received: {name}={value!r}."
        )


def is_number(value) -> bool:
    """Whether `value` is a finite real number (a bool is not)."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def is_count(value, least: int = 1) -> bool:
    """Whether `value` is an integer of at least `least` (a bool is not)."""
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and value >= least
    )


@dataclasses.dataclass(frozen=True)
class Network:
    """Shape of the hashing network.

    Attributes:
        layers: M of the paper. It counts the code layer: `layers - 1` layers
            of `width`, then one of `bits`.
        width: units of a hidden layer.
        bits: code length K.
    """

    layers: int = 8
    width: int = 256
    bits: int = 64

    def __post_init__(self):
        for name in ("layers", "width", "bits"):
            value = getattr(self, name)
            require(
                is_count(value),
                name,
                value,
                "an integer >= 1",
                "or there is no network to train",
            )


@dataclasses.dataclass(frozen=True)
class Solver:
    """Penalties and effort of the ADMM sub-problems.

    Attributes:
        alpha_theta: weight penalty of the layers. The online schedule applies
            it to every batch as if the batch were all data.
        alpha_w: weight penalty of the classifier.
        beta: penalty of z_m = f_m.
        gamma: penalty of theta~_i = theta. None sets it layer by layer so
            that a weight copy closes `copy_step` of the gap to its target.
        copy_step: see `gamma`; not used when `gamma` is given.
        sweeps: iterations of lines 5-13 on each batch (online schedule).
        code_steps: sub-gradient steps for each hidden code.
        shared_step: whether the codes of a batch share one step length
            (online schedule); False gives each sample its own line search.
        jacobi: whether weight copies are solved for the codes from before
            the sweep, so that no sub-problem undoes what another has just
            done (online schedule, one sweep); False is the paper's order.
        keep_error: whether each layer has a beta of its own, such that it
            hands down an error as long as the one it got (online schedule,
            one code step); False is one beta for all.
        input_metric: damping > 0 of a metric in gamma's term that makes
            moves along the mean of a layer's inputs dear (`weight_copies.
            directions`; online schedule, with `jacobi`); 0 is the paper's
            Euclidean one.
        margin: distance that the code layer's responses keep from the
            threshold, on the side that the classifier asks for; 0 is the
            paper's objective.
        margin_weight: weight of the margin's term, in units of beta.
    """

    alpha_theta: float = 0.0
    alpha_w: float = 1e-3
    beta: float = 10.0
    gamma: float | None = None
    copy_step: float = 0.01
    sweeps: int = 1
    code_steps: int = 1
    shared_step: bool = False
    jacobi: bool = False
    keep_error: bool = False
    input_metric: float = 0.0
    margin: float = 0.0
    margin_weight: float = 0.2

    def __post_init__(self):
        unique = "or its sub-problem has no unique minimiser"
        for name in ("alpha_w", "beta"):
            value = getattr(self, name)
            require(
                is_number(value) and value > 0,
                name,
                value,
                "a number > 0",
                unique,
            )
        require(
            self.gamma is None or (is_number(self.gamma) and self.gamma > 0),
            "gamma",
            self.gamma,
            "a number > 0, or None for a scale-free choice",
            unique,
        )
        require(
            is_number(self.copy_step) and 0 < self.copy_step < 1,
            "copy_step",
            self.copy_step,
            "a number between 0 and 1",
            "because it is the share of the way to the target",
        )
        for name in (
            "alpha_theta", "input_metric", "margin", "margin_weight",
        ):  # fmt: skip
            value = getattr(self, name)
            require(
                is_number(value) and value >= 0,
                name,
                value,
                "a number >= 0",
                "because it is a penalty or a distance",
            )
        require(
            not (self.jacobi and self.sweeps > 1),
            "jacobi",
            self.jacobi,
            "False with several sweeps",
            "because the next sweep needs the copies' own inputs",
        )
        require(
            self.jacobi or not self.input_metric,
            "input_metric",
            self.input_metric,
            "0 without jacobi",
            "because it is taken from the codes before the sweep",
        )
        require(
            not (self.keep_error and self.code_steps > 1),
            "keep_error",
            self.keep_error,
            "False with several code steps",
            "because further steps would lengthen the error again",
        )
        for name in ("sweeps", "code_steps"):
            value = getattr(self, name)
            require(
                is_count(value),
                name,
                value,
                "an integer >= 1",
                "or the codes never move",
            )


# Measured to train; a full pass takes large steps with a firm classifier.
SOLVERS = {
    "online": Solver(margin=0.05, shared_step=True, jacobi=True),
    "full": Solver(alpha_w=10.0, beta=0.1, copy_step=0.7),
}


def solver_of(schedule: str, **settings) -> Solver:
    """The schedule's usual solver with the settings that are not None."""
    require(
        schedule in SOLVERS,
        "schedule",
        schedule,
        " or ".join(SOLVERS),
        "the two ways to run Algorithm 1",
    )
    given = {k: v for k, v in settings.items() if v is not None}
    for name in ("shared_step", "jacobi", "keep_error", "input_metric"):
        require(
            not (schedule == "full" and given.get(name)),
            name,
            given.get(name),
            "left alone with the full schedule",
            "which is Algorithm 1 to the letter",
        )
    if given.get("sweeps", 1) > 1:
        given.setdefault("jacobi", False)
    return dataclasses.replace(SOLVERS[schedule], **given)
