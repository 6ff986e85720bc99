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
        for name in ("alpha_theta", "margin", "margin_weight"):
            value = getattr(self, name)
            require(
                is_number(value) and value >= 0,
                name,
                value,
                "a number >= 0",
                "because it is a penalty or a distance",
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
    "online": Solver(margin=0.05, shared_step=True),
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
    require(
        not (schedule == "full" and given.get("shared_step")),
        "shared_step",
        True,
        "False with the full schedule",
        "whose result must not depend on how the data is batched",
    )
    return dataclasses.replace(SOLVERS[schedule], **given)
