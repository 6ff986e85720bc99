"""Settings of back-propagation to compare with: their text, the best found."""

import dataclasses

from vdsh_tf.callbacks import Stage
from vdsh_tf.encoder import INITIALIZERS
from vdsh_tf.training.presets import Run
from vdsh_tf.training.trainer import presets

CHANGEABLE = ("noise", "dropout", "weight_decay", "warmup")
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
        start: "looks_linear" or "he_normal".
        stages: as for ADMM; a single stage is training at full depth.
        changes: settings that are not VDSH's own, as (name, value); what is
            not named (weight decay, perturbed inputs, ...) it shares.
    """

    start: str
    stages: tuple[Stage, ...]
    changes: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        stages = ",".join(
            f"{s.layers}:{s.epochs}:{s.learning_rate:g}" for s in self.stages
        )
        changes = "".join(f" {k}={v:g}" for k, v in self.changes)
        return f"Adam {self.start} {stages}{changes}"

    @property
    def layers(self) -> int:
        return self.stages[-1].layers

    def with_layers(self, layers: int) -> "Baseline":
        """The same stages for a network of another depth."""
        run = Run(stages=self.stages).with_layers(layers)
        return dataclasses.replace(self, stages=run.stages)

    def settings(self, run: Run) -> Run:
        """VDSH's settings with this baseline's changes."""
        return dataclasses.replace(
            run,
            stages=self.stages,
            initializer=self.start,
            **dict(self.changes),
        )


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
            presets.parse_stages(stages),
            tuple((name, float(value)) for name, value in pairs),
        )
        made.settings(Run())
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
