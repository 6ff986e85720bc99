"""Settings of back-propagation to compare with: their text, the best found."""

import dataclasses

from vdsh_tf.encoder import INITIALIZERS
from vdsh_tf.recipes import Stages
from vdsh_tf.training.config import Optimization
from vdsh_tf.training.config import TrainingConfig

# Continuous settings of the optimization; the others define the comparison.
CHANGEABLE = tuple(
    field.name
    for field in dataclasses.fields(Optimization)
    if field.type is float
)
HELP = (
    f'"START STAGES [SETTING=VALUE ...]" with a start of '
    f"{', '.join(INITIALIZERS)}, stages as of VDSH, and settings of "
    f"{', '.join(CHANGEABLE)}, such as "
    '"looks_linear 48:10:3e-4 dropout=0.1".'
)
PLAIN = "noise=0 dropout=0 weight_decay=0"
# By depth, the settings that did best on validation rows of MNIST at 64 bits
# and width 256 (BUILD.md, "What was tried").
BEST = {
    4: (
        f"looks_linear 4:10:4e-3 {PLAIN}",
        f"he_normal 4:10:2e-3 {PLAIN}",
    ),
    8: (
        f"looks_linear 8:10:2e-3 {PLAIN}",
        f"he_normal 8:10:2e-3 {PLAIN}",
        "looks_linear 4:24:1e-3,8:3:3e-4",
    ),
    16: (
        f"looks_linear 16:10:1e-3 {PLAIN}",
        f"he_normal 16:10:1e-3 {PLAIN}",
        "looks_linear 4:24:1e-3,16:3:3e-4",
    ),
    48: (
        f"looks_linear 48:10:3e-4 {PLAIN}",
        f"he_normal 48:10:3e-4 {PLAIN}",
        "looks_linear 4:24:1e-3,48:3:1.5e-4",
    ),
}


@dataclasses.dataclass(frozen=True)
class Baseline:
    """One setting of back-propagation by Adam with cosine decay.

    Attributes:
        start: the network's initializer, "looks_linear" or "he_normal".
        stages: as for ADMM; a single stage trains at full depth throughout.
        changes: settings that are not VDSH's own, as (name, value); all
            others (weight decay, perturbed inputs, ...) it shares.
    """

    start: str
    stages: Stages
    changes: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        changes = "".join(f" {name}={value:g}" for name, value in self.changes)
        return f"Adam {self.start} {self.stages}{changes}"

    @property
    def layers(self) -> int:
        return self.stages[-1].layers

    def with_layers(self, layers: int) -> "Baseline":
        """The same stages for a network of another depth."""
        config = TrainingConfig().replace(stages=self.stages)
        stages = config.with_layers(layers).stages
        return dataclasses.replace(self, stages=stages)

    def settings(self, config: TrainingConfig) -> TrainingConfig:
        """VDSH's settings with this baseline's changes."""
        return config.replace(
            stages=self.stages, initializer=self.start, **dict(self.changes)
        )

    def to_json(self) -> dict:
        """As plain values."""
        return {
            "start": self.start,
            "stages": str(self.stages),
            "changes": dict(self.changes),
        }


def parse(text: str) -> Baseline:
    """Reads "START STAGES [SETTING=VALUE ...]", see `HELP`."""
    try:
        start, stages, *changes = text.split()
        if start not in INITIALIZERS:
            raise ValueError(f"{start!r} is no start.")
        pairs = [change.split("=") for change in changes]
        unknown = sorted({name for name, _ in pairs} - set(CHANGEABLE))
        if unknown:
            raise ValueError(f"{', '.join(unknown)} cannot be changed.")
        made = Baseline(
            start,
            Stages.parse(stages),
            tuple((name, float(value)) for name, value in pairs),
        )
        made.settings(TrainingConfig())
    except ValueError as error:
        raise ValueError(
            f"A baseline must read {HELP} Received: {text!r}. {error}"
        ) from error
    return made


def at_depth(layers: int, texts: list[str]) -> list[Baseline]:
    """The given baselines of that depth; without any, the best known ones.

    A depth that was not searched takes the settings of the next deeper one
    that was, or of the deepest.
    """
    if texts:
        given = map(parse, texts)
        return [baseline for baseline in given if baseline.layers == layers]
    depth = next((d for d in sorted(BEST) if d >= layers), max(BEST))
    found = map(parse, BEST[depth])
    return [baseline.with_layers(layers) for baseline in found]


def check_depths(texts: list[str], depths: list[int]) -> None:
    """Refuses baselines that no depth would run."""
    for text in texts:
        layers = parse(text).layers
        if layers not in depths:
            raise ValueError(
                "The last stage of a baseline must be as deep as VDSH, which "
                f"it is compared with: {', '.join(map(str, depths))} layers. "
                f"Received: {text!r}, {layers} layers."
            )
