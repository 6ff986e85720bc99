"""Training runs that are known to train well, by name."""

from vdsh_tf.recipes import Stages
from vdsh_tf.training.config import TrainingConfig


def _preset(stages: str, **settings) -> TrainingConfig:
    return TrainingConfig().replace(
        **{
            "stages": Stages.parse(stages),
            "noise": 0.0,
            "normalization": "unit",
            "goal": "class",
            **settings,
        }
    )


PRESETS: dict[str, TrainingConfig] = {
    # For data of your own: what `fit` alone does, on a wider network.
    "auto": TrainingConfig().replace(width=512, epochs=20),
    "digits": _preset(
        "4:30:2e-3,8:20:1e-3",
        batch_size=64,
        width=128,
        bits=32,
        noise=0.3,
        weight_decay=0.1,
    ),
    "mnist_small": _preset(
        "4:6:5e-3,8:4:2e-3",
        data="mnist",
        width=64,
        bits=32,
        noise=0.1,
        weight_decay=0.1,
    ),
    "mnist": _preset(
        "4:24:3e-3,48:3:1.5e-4",
        data="mnist",
        dropout=0.2,
        weight_decay=0.3,
        jit_compile=True,
    ),
    "mnist_64x1024": _preset(
        "4:6:1e-3,64:2:5e-5",
        data="mnist",
        width=1024,
        dropout=0.2,
        weight_decay=0.3,
        jit_compile=True,
    ),
    "cifar10_gist": _preset(
        "4:16:1e-3,16:6:3e-4",
        data="cifar10_gist",
        width=512,
        normalization="center",
        noise=0.3,
        weight_decay=0.1,
        margin=0.1,
        jit_compile=True,
    ),
    "cifar10_cnn": _preset(
        "4:24:1e-3,16:8:3e-4",
        data="npz",
        width=512,
        noise=0.3,
        weight_decay=0.5,
        jit_compile=True,
    ),
    "multilabel": _preset(
        "4:20:1e-3,16:12:3e-4",
        data="npz",
        width=512,
        noise=0.6,
        weight_decay=1.0,
        margin=0.1,
        jit_compile=True,
    ),
}


def get(name: str) -> TrainingConfig:
    """The preset called `name`."""
    if name not in PRESETS:
        raise ValueError(
            f"`preset` must be one of {', '.join(PRESETS)}. "
            f"Received: preset={name!r}."
        )
    return PRESETS[name]
