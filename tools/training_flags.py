"""Flags of the tools that train: a preset, and every setting over it."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar
from typing import Self

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.training import presets
from vdsh_tf.training.config import TrainingConfig

NAMES = ", ".join(presets.PRESETS)


@dataclasses.dataclass(frozen=True)
class TrainingFlags:
    """A preset, its depth and length, and all settings of a training run."""

    # The preset that is taken when none is named.
    DEFAULT: ClassVar[str] = "digits"

    preset: str | None = setting(
        None, ANY, f"Settings to begin with: {NAMES}.", flag=flags.NAME
    )
    layers: int | None = setting(
        None, COUNT, "Depth M, the code layer included; default the preset's."
    )
    epochs: int | None = setting(
        None, COUNT, "Epochs of the last stage; default the preset's."
    )
    config: TrainingConfig = TrainingConfig()

    @classmethod
    def defaults(cls, argv: Sequence[str]) -> Self:
        """Flags whose defaults are the preset's that `argv` names."""
        preset = flags.peek(("preset",), argv)[0] or cls.DEFAULT
        return cls(preset=preset, config=presets.get(preset))

    @property
    def settings(self) -> TrainingConfig:
        """The settings, with depth and length put over their stages."""
        config = self.config
        if self.layers is not None:
            config = config.with_layers(self.layers)
        if self.epochs is not None:
            config = config.with_epochs(self.epochs)
        return config


def apart_from_place(config: TrainingConfig) -> TrainingConfig:
    """The settings without the places of the data, which may move."""
    return config.replace(data_dir=None, path=None)
