"""All experiments, in the order in which they run and are shown."""

from vdsh_tf.research.reproduction import architecture
from vdsh_tf.research.reproduction import backprop
from vdsh_tf.research.reproduction import compact
from vdsh_tf.research.reproduction import convergence
from vdsh_tf.research.reproduction import few_shot
from vdsh_tf.research.reproduction import layers
from vdsh_tf.research.reproduction import multilabel
from vdsh_tf.research.reproduction import retrieval
from vdsh_tf.research.reproduction import timing
from vdsh_tf.research.reproduction import unseen
from vdsh_tf.research.reproduction.tasks import BUDGETS
from vdsh_tf.research.reproduction.tasks import Figure

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        convergence.FIGURE,
        layers.FIGURE,
        timing.FIGURE,
        architecture.FIGURE,
        retrieval.FIGURE,
        compact.MAPS_FIGURE,
        compact.RADIUS_FIGURE,
        multilabel.FIGURE,
        few_shot.FIGURE,
        backprop.FIGURE,
        unseen.ITEMS_FIGURE,
        unseen.CLASSES_FIGURE,
    )
}


def get(name: str) -> Figure:
    """The figure called `name`."""
    if name not in FIGURES:
        raise ValueError(
            f"`figure` must be one of {', '.join(FIGURES)}. "
            f"Received: figure={name!r}."
        )
    return FIGURES[name]


def check_budget(budget: str) -> str:
    """The budget, if there is one of that name."""
    if budget not in BUDGETS:
        raise ValueError(
            f"`budget` must be one of {', '.join(BUDGETS)}. "
            f"Received: budget={budget!r}."
        )
    return budget
