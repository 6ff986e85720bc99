"""Recipe: what `fit` does beyond the solver, planned where nothing is said.

Depth grows: few layers learn fast, and the others join as identities for a
last stretch at a small rate, which tightens the codes. The plan follows from
the depth of the network and the number of epochs.
"""

import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence

from vdsh_tf.config import COUNT
from vdsh_tf.config import NOT_NEGATIVE
from vdsh_tf.config import SHARE_OR_ZERO
from vdsh_tf.config import Rule
from vdsh_tf.config import check_settings
from vdsh_tf.config import is_number
from vdsh_tf.config import require
from vdsh_tf.config import setting


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stretch of training at one depth."""

    layers: int = setting(8, COUNT, "Number of layers that run.")
    epochs: int = setting(10, COUNT, "How long.")
    learning_rate: float = setting(
        1e-3,
        Rule(
            "a number > 0",
            "in every stage of training",
            lambda v: is_number(v) and v > 0,
        ),
        "Its peak; it warms up from 0 and decays by a cosine.",
    )

    def __post_init__(self):
        check_settings(self)


class Stages(Sequence):
    """Stages of a training run, written as layers:epochs:learning_rate.

    `str(Stages.parse("4:8:3e-3,48:4:4e-4"))` gives the text back.
    """

    def __init__(self, stages: Iterable[Stage]):
        self._stages = tuple(stages)

    @classmethod
    def parse(cls, text: str) -> "Stages":
        """Reads stages with commas between them."""
        try:
            rows = [part.split(":") for part in text.split(",")]
            return cls(
                Stage(int(layers), int(epochs), float(rate))
                for layers, epochs, rate in rows
            )
        except ValueError as error:
            raise ValueError(
                "`stages` must read layers:epochs:learning_rate, with commas "
                "between stages, such as 4:4:1e-3,48:4:3e-4. Received: "
                f"{text!r}. {error}"
            ) from error

    def __getitem__(self, index):
        return self._stages[index]

    def __len__(self) -> int:
        return len(self._stages)

    def __eq__(self, other) -> bool:
        return isinstance(other, Stages) and self._stages == other._stages

    def __hash__(self) -> int:
        return hash(self._stages)

    def __str__(self) -> str:
        return ",".join(
            f"{s.layers}:{s.epochs}:{s.learning_rate!r}" for s in self
        )

    __repr__ = __str__


# Layers of the first stage: more learn more slowly, fewer hold less.
FIRST_DEPTH = 4
# Peak rate of Adam at FIRST_DEPTH layers; deeper stages have less.
RATE = 2e-3
# Factor on the rate of a network that is trained again.
AGAIN = 0.3
# Share of the epochs for the stage at full depth, and the factor on its rate:
# a larger one tightens codes more, at the cost of their ranking.
LAST_SHARE = 0.1
LAST_FACTOR = 0.25


def rate_at(depth: int, rate: float = RATE) -> float:
    """Peak rate of a stage: the more layers move at once, the smaller."""
    return rate * FIRST_DEPTH / max(depth, FIRST_DEPTH)


def plan(
    layers: int, epochs: int, depth: int = 0, rate: float = RATE
) -> Stages:
    """Stages for a network of `layers` layers and `epochs` epochs.

    Args:
        layers: M of the network.
        epochs: how long it trains.
        depth: number of layers that cannot be frozen, because they do not
            start as identities or have been trained.
        rate: peak rate of the first stage.
    """
    first = min(layers, max(depth, FIRST_DEPTH))
    if first == layers or epochs < 2:
        return Stages([Stage(layers, epochs, rate_at(layers, rate))])
    last = max(1, round(LAST_SHARE * epochs))
    return Stages(
        [
            Stage(first, epochs - last, rate_at(first, rate)),
            Stage(layers, last, LAST_FACTOR * rate_at(layers, rate)),
        ]
    )


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How long and how fast is trained at which depth, and on what inputs."""

    stages: Stages | None = setting(
        None,
        Rule("one stage or more", "or nothing is trained", bool),
        "Depth, epochs and learning rate of each stage, such as "
        "4:8:3e-3,48:4:4e-4; the last one's depth is the network's. Not "
        "given, they are planned from the depth and the number of epochs.",
        flag={"type": Stages.parse},
    )
    rate: float | None = setting(
        None,
        Rule(
            "a number > 0",
            "or nothing moves",
            lambda v: is_number(v) and v > 0,
        ),
        "Peak learning rate of the first planned stage; default 2e-3, or that "
        "of an optimizer of yours.",
    )
    warmup: float = setting(
        0.1, SHARE_OR_ZERO, "Share of a stage in which the rate rises."
    )
    noise: float = setting(
        0.1,
        NOT_NEGATIVE,
        "Length of random noise on an input, as a share of its own.",
    )
    dropout: float = setting(
        0.0, SHARE_OR_ZERO, "Share of an input's entries that are set to zero."
    )
    mixup: float = setting(
        0.0,
        Rule(
            "a number from 0 to 0.5",
            "because it is the largest share of a sample's partner",
            lambda v: is_number(v) and 0 <= v <= 0.5,
        ),
        "Largest share of another sample of the batch that is mixed into an "
        "input and into its labels; .5 for few labelled rows.",
    )
    chimeras: float = setting(
        0.0,
        SHARE_OR_ZERO,
        "Share of a batch that becomes chimeras: rows with half of their "
        "entries from another one, and only the labels that both share. They "
        "tell what is of no class; .25 where classes without a label are like "
        "none with one.",
    )
    weight_decay: float = setting(
        0.3, NOT_NEGATIVE, "Of the optimizer, decoupled from the gradient."
    )

    def __post_init__(self):
        check_settings(self)

    @property
    def takes_row_before(self) -> bool:
        """Whether a sample may take something of the one before."""
        return bool(self.mixup or self.chimeras)

    def planned(
        self, layers: int, epochs: int, depth: int = 0, again: bool = False
    ) -> "Recipe":
        """The same with stages; see `plan`.

        Args:
            layers, epochs, depth: see `plan`.
            again: whether the network has been trained before. It goes on at
                full depth, at a fraction of the rate.
        """
        if self.stages is not None:
            return self
        rate = self.rate or RATE
        if again:
            depth, rate = layers, rate * AGAIN
        stages = plan(layers, epochs, depth, rate)
        return dataclasses.replace(self, stages=stages)

    @classmethod
    def make(cls, recipe) -> "Recipe | None":
        """From what `VDSH.compile` takes: "auto", None, a Recipe, a dict."""
        if recipe is None or isinstance(recipe, Recipe):
            return recipe
        if isinstance(recipe, dict):
            stages = recipe.get("stages")
            if isinstance(stages, str):
                recipe = {**recipe, "stages": Stages.parse(stages)}
            return cls(**recipe)
        require(
            recipe == "auto",
            "recipe",
            recipe,
            '"auto", a Recipe or None',
            "to say how depth, rate and noise are planned",
        )
        return cls()

    def to_dict(self) -> dict:
        """As plain values, for saved models."""
        values = dataclasses.asdict(self)
        if self.stages is not None:
            values["stages"] = str(self.stages)
        return values

    def __str__(self) -> str:
        stages = "planned by `fit`" if self.stages is None else self.stages
        return (
            f"stages {stages} (layers:epochs:rate), warm-up "
            f"{self.warmup:g}, noise {self.noise:g}, dropout "
            f"{self.dropout:g}, mix-up {self.mixup:g}, chimeras "
            f"{self.chimeras:g}, weight decay "
            f"{self.weight_decay:g}"
        )
