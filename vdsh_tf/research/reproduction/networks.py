"""Networks of the experiments: settings by budget, and training."""

import dataclasses

import keras

from vdsh_tf.data import datasets
from vdsh_tf.model import VDSH
from vdsh_tf.training.presets import Run
from vdsh_tf.training.trainer import presets
from vdsh_tf.training.trainer import trainer

PRESETS = {
    "digits": "digits",
    "mnist": "mnist",
    "cifar10_gist": "cifar10_gist",
    "cifar10_cnn": "cifar10_cnn",
    "tmc2007_500": "multilabel",
    "corel16k001": "multilabel",
}
# Share of the preset's epochs, and its greatest depth and width.
SHORTER = {"smoke": (0.0, 6, 64), "small": (1 / 3, 16, 512)}


def preset(data: str, bits: int, budget: str) -> Run:
    """The settings of VDSH on a data set; smaller budgets train less."""
    run = dataclasses.replace(presets.get(PRESETS[data]), bits=bits)
    if budget == "full":
        return run
    share, layers, width = SHORTER[budget]
    return shortened(run, share, layers, width)


def shortened(run: Run, share: float, layers: int, width: int) -> Run:
    """The run with a share of its epochs, and at most this depth and width."""
    stages = tuple(
        dataclasses.replace(
            stage,
            layers=min(stage.layers, layers),
            epochs=max(1, round(share * stage.epochs)),
        )
        for stage in run.stages
    )
    return dataclasses.replace(run, stages=stages, width=min(run.width, width))


def run_settings(run: Run) -> dict:
    """What determines a trained network; not where its data lies."""
    settings = run.to_json()
    for name in ("data", "data_dir", "path", "queries_per_class"):
        del settings[name]
    return settings


def shape_text(run: Run) -> str:
    """Depth and width, as the paper writes them."""
    return f"{run.layers} x {run.width}"


def train(run: Run, split: datasets.Split) -> tuple[VDSH, float]:
    """Trains VDSH online; returns it with the seconds of its epochs."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(run.seed)
    model = trainer.build_model(run, split.num_classes)
    watch = trainer.Stopwatch()
    trainer.fit_online(model, run, split, 0, [watch], 0)
    return model, watch.seconds
