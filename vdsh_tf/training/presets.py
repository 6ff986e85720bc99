"""All settings of a training run, and presets that are known to train."""

import dataclasses
import inspect
import re

from vdsh_tf import config
from vdsh_tf.callbacks import Stage


@dataclasses.dataclass(frozen=True)
class Run:
    """Everything that determines a training run.

    Attributes:
        data: digits, mnist, fashion_mnist, cifar10, mnist_gist,
            cifar10_gist, nus_wide or npz.
        data_dir: prepared tensorflow-datasets folder, default TFDS_DATA_DIR;
            for nus_wide, the folder with its unpacked archives.
        path: features file, for npz.
        queries_per_class: queries drawn from each class, or from each label;
            default 100, and 20 for digits.
        validation_per_class: likewise, held out of the training part.
        stages: depth, epochs and learning rate of each stage, such as
            4:8:3e-3,48:4:4e-4; the last one's depth is the network's.
        warmup: share of each stage in which the learning rate rises.
        batch_size: samples in a step.
        center: whether the mean of the training rows is taken off inputs.
        noise: length of Gaussian noise on an input, as a share of its own.
        dropout: share of an input's entries that are set to zero.
        weight_decay: of the optimizer, decoupled from the gradient.
        jit_compile: whether XLA compiles the step; worth it for a deep
            network, whose many small operations it fuses.
        width: units of a hidden layer.
        bits: code length K.
        initializer: looks_linear, he_normal or glorot_uniform.
        schedule: online, or full (Algorithm 1 to the letter), which uses no
            learning rate and only the last stage.
        seed: of the split, the starting weights and the order of the data.
        others: see `config.Solver`; None is the schedule's usual value.
    """

    data: str = "digits"
    data_dir: str | None = None
    path: str | None = None
    queries_per_class: int | None = None
    validation_per_class: int = 0
    stages: tuple[Stage, ...] = (Stage(8, 10, 1e-3),)
    warmup: float = 0.1
    batch_size: int = 256
    center: bool = False
    noise: float = 0.0
    dropout: float = 0.0
    weight_decay: float = 0.0
    jit_compile: bool = False
    width: int = 256
    bits: int = 64
    initializer: str = "looks_linear"
    schedule: str = "online"
    seed: int = 0
    alpha_theta: float | None = None
    alpha_w: float | None = None
    beta: float | None = None
    gamma: float | None = None
    copy_step: float | None = None
    sweeps: int | None = None
    code_steps: int | None = None
    shared_step: bool | None = None
    jacobi: bool | None = None
    keep_error: bool | None = None
    input_metric: float | None = None
    margin: float | None = None
    margin_weight: float | None = None

    def __post_init__(self):
        config.require(
            config.is_count(self.batch_size), "batch_size", self.batch_size,
            "an integer >= 1", "or no step has data",
        )  # fmt: skip
        config.require(
            config.is_count(self.seed, 0), "seed", self.seed,
            "an integer >= 0", "to make runs repeatable",
        )  # fmt: skip
        for name in ("noise", "weight_decay"):
            value = getattr(self, name)
            config.require(
                config.is_number(value) and value >= 0, name, value,
                "a number >= 0", "because it is a length or a rate",
            )  # fmt: skip
        config.require(
            config.is_number(self.dropout) and 0 <= self.dropout < 1,
            "dropout", self.dropout,
            "a number >= 0 and < 1", "or nothing is left of an input",
        )  # fmt: skip
        config.require(
            len(self.stages) > 0, "stages", self.stages,
            "one stage or more", "or nothing is trained",
        )  # fmt: skip

    @property
    def layers(self) -> int:
        return self.stages[-1].layers

    @property
    def epochs(self) -> int:
        return sum(stage.epochs for stage in self.stages)

    def with_layers(self, layers: int) -> "Run":
        """The same stages for a network of another depth."""
        capped = [
            dataclasses.replace(s, layers=min(s.layers, layers))
            for s in self.stages
        ]
        capped[-1] = dataclasses.replace(capped[-1], layers=layers)
        return dataclasses.replace(self, stages=tuple(capped))

    def with_epochs(self, epochs: int) -> "Run":
        """Other length of the last stage, the one at full depth."""
        last = dataclasses.replace(self.stages[-1], epochs=epochs)
        return dataclasses.replace(self, stages=(*self.stages[:-1], last))

    def to_json(self) -> dict:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Run":
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise ValueError(
                f"A run has no settings named {', '.join(unknown)}. It was "
                "written by another version; train anew."
            )
        stages = tuple(Stage(**stage) for stage in data["stages"])
        return cls(**{**data, "stages": stages})


def settings_help() -> dict[str, str]:
    """What each setting means, as the classes document it."""
    found = {}
    for cls in (config.Solver, config.Network, Run):
        doc = inspect.getdoc(cls) or ""
        for names, text in re.findall(
            r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", doc, re.MULTILINE
        ):
            for name in names.split(", "):
                found[name] = " ".join(text.split())
    return found


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Reads "4:4:1e-3,48:4:3e-4": layers, epochs, learning rate."""
    try:
        rows = [part.split(":") for part in text.split(",")]
        return tuple(
            Stage(int(layers), int(epochs), float(rate))
            for layers, epochs, rate in rows
        )
    except ValueError as error:
        raise ValueError(
            "`stages` must read layers:epochs:learning_rate, with commas "
            "between stages, such as 4:4:1e-3,48:4:3e-4. Received: "
            f"{text!r}. {error}"
        ) from error


PRESETS: dict[str, Run] = {
    "digits": Run(
        stages=parse_stages("4:30:2e-3,8:20:1e-3"),
        batch_size=64, width=128, bits=32, noise=0.3, weight_decay=0.1,
    ),
    "mnist_small": Run(
        data="mnist", stages=parse_stages("4:6:5e-3,8:4:2e-3"),
        width=64, bits=32, noise=0.1, weight_decay=0.1,
    ),
    "mnist": Run(
        data="mnist", stages=parse_stages("4:24:3e-3,48:3:1.5e-4"),
        dropout=0.2, weight_decay=0.3, jit_compile=True,
    ),
    "mnist_64x1024": Run(
        data="mnist", stages=parse_stages("4:6:1e-3,64:2:5e-5"), width=1024,
        dropout=0.2, weight_decay=0.3, jit_compile=True,
    ),
    "cifar10_gist": Run(
        data="cifar10_gist", stages=parse_stages("4:16:1e-3,16:6:3e-4"),
        width=512, center=True, noise=0.3, weight_decay=0.1, margin=0.1,
        jit_compile=True,
    ),
    "cifar10_cnn": Run(
        data="npz", stages=parse_stages("4:24:1e-3,16:8:3e-4"),
        width=512, noise=0.3, weight_decay=0.5, jit_compile=True,
    ),
    "multilabel": Run(
        data="npz", stages=parse_stages("4:20:1e-3,16:12:3e-4"),
        width=512, noise=0.6, weight_decay=1.0, margin=0.1,
        jit_compile=True,
    ),
}  # fmt: skip


def get(name: str) -> Run:
    """The preset called `name`."""
    if name not in PRESETS:
        raise ValueError(
            f"`preset` must be one of {', '.join(PRESETS)}. "
            f"Received: preset={name!r}."
        )
    return PRESETS[name]
