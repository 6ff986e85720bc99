"""Networks of the experiments: settings by budget, and training."""

import dataclasses

import keras

from vdsh_tf.data import datasets
from vdsh_tf.model import VDSH
from vdsh_tf.recipes import Stage
from vdsh_tf.recipes import Stages
from vdsh_tf.training import presets
from vdsh_tf.training import trainer
from vdsh_tf.training.config import TrainingConfig

PRESETS = {
    "digits": "digits",
    "mnist": "mnist",
    "cifar10_gist": "cifar10_gist",
    "cifar10_cnn": "cifar10_cnn",
    "tmc2007_500": "multilabel",
    "corel16k001": "multilabel",
}
# Share of the preset's epochs, and upper limits of depth and width.
SHORTER = {"smoke": (0.0, 6, 64), "small": (1 / 3, 16, 512)}


def preset(data: str, bits: int, budget: str) -> TrainingConfig:
    """The settings of VDSH on a data set; smaller budgets train less."""
    config = presets.get(PRESETS[data]).replace(bits=bits)
    if budget == "full":
        return config
    share, layers, width = SHORTER[budget]
    return shortened(config, share, layers, width)


def shortened(
    config: TrainingConfig, share: float, layers: int, width: int
) -> TrainingConfig:
    """A share of the epochs, and at most this depth and width."""
    stages = Stages(
        dataclasses.replace(
            stage,
            layers=min(stage.layers, layers),
            epochs=max(1, round(share * stage.epochs)),
        )
        for stage in config.stages
    )
    return config.replace(stages=stages, width=min(config.network.width, width))


def config_settings(config: TrainingConfig) -> dict:
    """All that determines a trained network, as plain values.

    Where its data lies is left out, and what the schedule chooses is written
    out, so that a result does not outlive a change of its settings.
    """
    solver = config.solver.resolved(config.schedule)
    settings = config.replace(solver=solver).to_json()
    del settings["source"]
    return settings


def settings_from_0_1(settings: dict) -> dict:
    """Settings of a result that version 0.1.0 computed, in today's names.

    Settings of a result that this one was computed from may lie inside.
    """
    settings = {
        name: settings_from_0_1(value) if isinstance(value, dict) else value
        for name, value in settings.items()
    }
    if "run" in settings:
        config = TrainingConfig.from_json(settings.pop("run"))
        settings["config"] = config_settings(config)
    baseline = settings.get("baseline")
    if baseline is not None and not isinstance(baseline["stages"], str):
        stages = Stages(Stage(**stage) for stage in baseline["stages"])
        settings["baseline"] = {
            "start": baseline["start"],
            "stages": str(stages),
            "changes": dict(baseline["changes"]),
        }
    return settings


def shape_text(config: TrainingConfig) -> str:
    """Depth and width, as the paper writes them."""
    return f"{config.layers} x {config.network.width}"


def train(config: TrainingConfig, split: datasets.Split) -> tuple[VDSH, float]:
    """Trains VDSH online; returns it with the seconds of its epochs."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(config.seed)
    model = trainer.build_model(config, split.num_classes)
    watch = trainer.Stopwatch()
    trainer.fit_online(model, config, split, 0, [watch], 0)
    return model, watch.seconds
