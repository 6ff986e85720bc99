"""What `VDSH.fit` follows by itself: growth, watch, evaluation."""

import sys

import keras

from vdsh_tf.callbacks.evaluation import RetrievalEvaluation
from vdsh_tf.callbacks.evaluation import held_out_evaluation
from vdsh_tf.callbacks.growth import GrowDepth
from vdsh_tf.callbacks.watch import Watch


def plan(model, recipe, data, validation_data, given, epochs, initial_epoch):
    """What `VDSH.fit` follows beside the callbacks that it was given.

    Args:
        model: a built and compiled VDSH.
        recipe: `recipes.Recipe` that it was compiled with, or None.
        data: TrainingData.
        validation_data: as for `fit`, or None.
        given: the user's callbacks, or None.
        epochs, initial_epoch: as for `fit`.

    Returns:
        The recipe with its stages, or None; and all callbacks.
    """
    if isinstance(given, keras.callbacks.Callback):
        given = [given]
    given = list(getattr(given, "callbacks", given) or [])
    growth = next((c for c in given if isinstance(c, GrowDepth)), None)
    own: list[keras.callbacks.Callback] = []
    if not model.algorithm.takes_optimizer or model.optimizer is None:
        recipe = None
    if recipe is not None and growth is None:
        again = initial_epoch == 0 and int(model.optimizer.iterations) > 0
        recipe = recipe.planned(
            model.encoder.num_layers, epochs, model.encoder.grow_from, again
        )
        growth = GrowDepth(recipe.stages, recipe.warmup)
        own.append(growth)
        own.append(Announcement(f"Recipe: {recipe}"))
    if model.algorithm.takes_optimizer:
        own.append(Watch(data.rows(1000), growth))
    evaluates = any(isinstance(c, RetrievalEvaluation) for c in given)
    if validation_data is not None and not evaluates:
        own += held_out_evaluation(validation_data)
    return recipe, [*own, *given]


class Announcement(keras.callbacks.Callback):
    """Shows a line when training starts, unless `verbose` is 0."""

    def __init__(self, text: str):
        super().__init__()
        self.text = text

    def on_train_begin(self, logs=None):
        if self.params.get("verbose"):
            sys.stdout.write(f"{self.text}\n")
