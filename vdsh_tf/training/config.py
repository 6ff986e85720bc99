"""TrainingConfig: everything that determines a training run."""

import dataclasses

from vdsh_tf import config
from vdsh_tf import recipes
from vdsh_tf.config import COUNT
from vdsh_tf.config import SCHEDULE
from vdsh_tf.config import SWITCH
from vdsh_tf.config import TEXT
from vdsh_tf.config import Rule
from vdsh_tf.config import Solver
from vdsh_tf.config import check_settings
from vdsh_tf.config import is_count
from vdsh_tf.config import setting
from vdsh_tf.config import solver_from_0_1
from vdsh_tf.recipes import Recipe
from vdsh_tf.recipes import Stages

_COUNT_OR_ZERO = Rule(
    "an integer >= 0", "as it is a number of items", lambda v: is_count(v, 0)
)


_QUERIES = Rule(
    "an integer >= 1", "or there is nothing to measure a run with", is_count
)
_SEED = Rule(
    "an integer from 0 to 4294967295 (2^32 - 1)",
    "to repeat the run: random generators take no other",
    lambda v: is_count(v, 0) and v < 2**32,
)
_SHARE = Rule(
    "a number >= 0 and < 1",
    "as it is a share of the rows",
    lambda v: isinstance(v, int | float) and 0 <= v < 1,
)


@dataclasses.dataclass(frozen=True)
class Source:
    """What is trained on, and how it is split."""

    data: str = setting(
        "digits",
        TEXT,
        "Data set: digits, mnist, fashion_mnist, cifar10, mnist_gist, "
        "cifar10_gist, nus_wide, npz, images; larger than memory: shards, "
        "tfds:NAME.",
    )
    path: str | None = setting(
        None,
        TEXT,
        "Features file, for npz; folder with a folder per class, for images; "
        "for shards, folder, pattern or URL of .parquet, .npy or .tfrecord.",
    )
    data_dir: str | None = setting(
        None,
        TEXT,
        "Prepared tensorflow-datasets folder, default TFDS_DATA_DIR; for "
        "nus_wide, the folder with its unpacked archives.",
    )
    queries_per_class: int | None = setting(
        None,
        _QUERIES,
        "Queries drawn from each class, or from each label; default 100, and "
        "20 for digits.",
    )
    validation_per_class: int = setting(
        0, _COUNT_OR_ZERO, "Likewise, held out of the training part."
    )
    train_per_class: int | None = setting(
        None,
        COUNT,
        "Rows of each class to train on; what is searched in are the others. "
        "Default: the paper's protocol, where all rows are trained on and "
        "searched in.",
    )
    unseen_classes: str | None = setting(
        None,
        TEXT,
        "Classes that are not trained on, such as 7,8,9, or a share of them "
        "such as 0.3; queries and what is searched in are theirs.",
    )
    query_share: float | None = setting(
        None,
        _SHARE,
        "Queries of shards and tfds:NAME, drawn by a hash of their key; "
        "default 0.01.",
    )
    validation_share: float = setting(
        0.0, _SHARE, "Likewise, held out of the training part."
    )
    on_validation: bool = setting(
        False,
        SWITCH,
        "Whether validation rows take the queries' place, to choose settings "
        "by, under the same protocol: some trained classes then take that of "
        "the unseen ones and are not trained on.",
    )


@dataclasses.dataclass(frozen=True)
class Network:
    """The hashing network."""

    # M of the paper, the code layer included; where stages are given, their
    # last depth overrides it. Tools have a flag of their own for it.
    layers: int = dataclasses.field(default=8, metadata={"rule": COUNT})
    width: int = setting(256, COUNT, "Units of a hidden layer.")
    bits: int = setting(64, COUNT, "Code length K.")
    initializer: str = setting(
        "looks_linear", TEXT, "looks_linear, he_normal or glorot_uniform."
    )
    normalization: str = setting(
        "auto",
        TEXT,
        "What inputs go through: unit (unit length alone), center (minus the "
        "mean of the training rows), standardize (and over the scale of each "
        "column), or auto, which looks at them.",
    )


@dataclasses.dataclass(frozen=True)
class Optimization(Recipe):
    """The recipe of `VDSH.compile`, and how its steps are run."""

    # Length of training, where no stages are given; likewise.
    epochs: int = dataclasses.field(default=10, metadata={"rule": COUNT})
    batch_size: int | None = setting(
        None, COUNT, "Samples in a step; default by their number, at most 256."
    )
    jit_compile: bool = setting(
        False,
        SWITCH,
        "Whether XLA compiles the step; worth it for a deep network, whose "
        "many small operations it fuses.",
    )

    @property
    def recipe(self) -> Recipe:
        """The recipe alone."""
        names = [field.name for field in dataclasses.fields(Recipe)]
        return Recipe(**{name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Everything that determines a training run, in groups.

    Names are unique over all groups: `replace` takes them flat.
    """

    source: Source = Source()
    network: Network = Network()
    optimization: Optimization = Optimization()
    solver: Solver = Solver()
    schedule: str = setting(
        "online",
        SCHEDULE,
        "online, or full (Algorithm 1 to the letter), which uses no learning "
        "rate and only the last stage.",
    )
    seed: int = setting(
        0,
        _SEED,
        "Of the split, the starting weights and the order of the data.",
    )

    def __post_init__(self):
        for part in (self, self.source, self.network, self.optimization):
            check_settings(part)
        depths = [stage.layers for stage in self.stages]
        config.require(
            depths == sorted(depths),
            "stages",
            str(self.stages),
            "of rising depth",
            "because a trained layer cannot be frozen again",
        )

    @property
    def stages(self) -> Stages:
        """Those of the recipe, or planned."""
        given = self.optimization.stages
        if given is not None:
            return given
        return recipes.plan(
            self.network.layers,
            self.optimization.epochs,
            rate=self.optimization.rate or recipes.RATE,
        )

    @property
    def layers(self) -> int:
        """M, the depth of the last stage."""
        return self.stages[-1].layers

    @property
    def epochs(self) -> int:
        """Length of all stages together."""
        return sum(stage.epochs for stage in self.stages)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        return self.layers, self.network.width, self.network.bits

    @property
    def weight_bytes(self) -> int:
        """Memory that the weights take in training, apart from the input's."""
        return config.weight_bytes(*self._sizes)

    def check_memory(self, available: int | None = None) -> None:
        """Refuses a network that cannot fit, before any work.

        Args:
            available: bytes; default the memory of this machine.
        """
        config.check_memory(*self._sizes, available=available)

    def replace(self, **settings) -> "TrainingConfig":
        """The same with other values, named without their group."""
        changes: dict = {}
        for name, value in settings.items():
            group = _group_of(name)
            if group is None:
                changes[name] = value
            else:
                changes.setdefault(group, {})[name] = value
        for group in _GROUPS:
            if group in changes and isinstance(changes[group], dict):
                changes[group] = dataclasses.replace(
                    getattr(self, group), **changes[group]
                )
        return dataclasses.replace(self, **changes)

    def with_layers(self, layers: int) -> "TrainingConfig":
        """The same stages for a network of another depth."""
        given = self.optimization.stages
        if given is None:
            return self.replace(layers=layers)
        capped = [
            dataclasses.replace(s, layers=min(s.layers, layers)) for s in given
        ]
        capped[-1] = dataclasses.replace(capped[-1], layers=layers)
        return self.replace(stages=Stages(capped))

    def with_epochs(self, epochs: int) -> "TrainingConfig":
        """Other length: of the last stage, or of the plan."""
        if self.optimization.stages is None:
            return self.replace(epochs=epochs)
        *first, last = self.optimization.stages
        last = dataclasses.replace(last, epochs=epochs)
        return self.replace(stages=Stages([*first, last]))

    def to_json(self) -> dict:
        """As dictionaries and plain values, for config.json."""
        data = dataclasses.asdict(self)
        stages = self.optimization.stages
        data["optimization"]["stages"] = stages and str(stages)
        return data

    @classmethod
    def from_json(cls, data: dict) -> "TrainingConfig":
        """Reads what `to_json`, or version 0.1.0, wrote."""
        try:
            if "optimization" not in data:
                return _from_0_1(data)
            return _from_flat(_flattened(data))
        # Of values that are no groups, no stages, or no text.
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(
                "Settings of a training run must be in groups "
                f"({', '.join(_GROUPS)}), with stages as text. Received: "
                f"others ({error})."
            ) from error


_GROUPS = {
    "source": Source,
    "network": Network,
    "optimization": Optimization,
    "solver": Solver,
}


# Version 0.1.0 wrote every setting, and had no recipe to fall back on.
_PLAIN = {"noise": 0.0, "weight_decay": 0.0}


def _group_of(name):
    """The group that has a setting, or None for the config's own."""
    if name in {field.name for field in dataclasses.fields(TrainingConfig)}:
        return None
    for group, cls in _GROUPS.items():
        if name in {field.name for field in dataclasses.fields(cls)}:
            return group
    raise ValueError(
        f"A training run must know its settings; it has none named {name!r}. "
        "If a file has it, another version wrote it: train anew."
    )


def _flattened(data):
    """Settings by name, without their groups."""
    flat: dict = {}
    for name, value in data.items():
        if name in _GROUPS and not isinstance(value, dict):
            raise TypeError(f"{name} is {value!r:.80}")
        flat.update(value if name in _GROUPS else {name: value})
    if flat["stages"] is not None:
        flat["stages"] = Stages.parse(flat["stages"])
    return flat


def _from_flat(flat):
    return TrainingConfig().replace(**flat)


def _from_0_1(data):
    solver, rest = solver_from_0_1(data)
    centred = rest.pop("center", False)
    rest["normalization"] = "center" if centred else "unit"
    stages = Stages(
        dataclasses.replace(Stages.parse("1:1:1")[0], **stage)
        for stage in rest.pop("stages")
    )
    return _from_flat({**_PLAIN, **rest, "stages": stages, "solver": solver})
