"""What `VDSH.fit` follows by itself: growth, watch, evaluation."""

import os
import sys
import warnings

import keras
import tensorflow as tf

from vdsh_tf.callbacks.evaluation import ObjectiveAsLoss
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
        validation_data: arrays or batches to look at, or None.
        given: the user's callbacks, or None.
        epochs, initial_epoch: as for `fit`.

    Returns:
        The recipe with its stages, or None; and all callbacks.
    """
    if isinstance(given, keras.callbacks.Callback):
        given = [given]
    given = list(getattr(given, "callbacks", given) or [])
    growth = next((c for c in given if isinstance(c, GrowDepth)), None)
    own: list[keras.callbacks.Callback] = [*data.hooks(), ObjectiveAsLoss()]
    if not model.algorithm.takes_optimizer or model.optimizer is None:
        recipe = None
    if recipe is not None and growth is None:
        again = initial_epoch == 0 and model.optimizer.iterations.numpy() > 0
        again = again and not any(map(_restores, given))
        recipe = recipe.planned(
            model.encoder.num_layers, epochs, model.encoder.grow_from, again
        )
        growth = GrowDepth(recipe.stages, recipe.warmup)
        own.append(growth)
        own.append(Announcement(f"Recipe: {recipe}"))
    if growth is not None:
        _check_rates(given)
        _warn_if_shallow(growth, epochs, model.encoder.num_layers)
    rows, _ = data.sample(1000)
    if model.algorithm.takes_optimizer:
        own.append(Watch(rows, growth))
    else:
        # No rate to lower, and many a first sweep gives all rows one code.
        own.append(Watch(rows, tries=0, look_at_codes=False))
    evaluates = any(isinstance(c, RetrievalEvaluation) for c in given)
    if validation_data is not None and not evaluates:
        trained = None if data.streamed else data.arrays
        own += held_out_evaluation(validation_data, trained)
    return recipe, [*own, *given]


def _warn_if_shallow(growth, epochs, layers):
    """Says before training that it will end before all layers have joined."""
    last = growth.stage_at(epochs - 1)[0].layers if epochs else layers
    if last < layers:
        warnings.warn(
            f"Training ends after epoch {epochs} with {last} of {layers} "
            f"layers: the stages take {growth.epochs} epochs. The other "
            f"layers stay identities. Give epochs={growth.epochs}, or shorter "
            "stages.",
            stacklevel=4,
        )


def _restores(callback):
    """Whether a callback will resume training that was interrupted."""
    kind = keras.callbacks.BackupAndRestore
    return isinstance(callback, kind) and os.path.isdir(callback.backup_dir)


def _check_rates(given):
    """Raises if another callback sets the learning rate, too."""
    scheduler = keras.callbacks.LearningRateScheduler
    if any(isinstance(callback, scheduler) for callback in given):
        raise ValueError(
            "The learning rate must be set by one party, and the recipe sets "
            "it before every step. Received: a LearningRateScheduler. Give "
            "`rate` or `stages` in the recipe, give the optimizer a schedule, "
            "or compile with recipe=None."
        )


class EpochClock(keras.callbacks.Callback):
    """Tells the data which epoch it is.

    Callbacks such as `BackupAndRestore` may resume at an epoch that `fit`
    does not know of when it makes the data.

    Attributes:
        epoch: int64 variable.
    """

    def __init__(self, epoch: int):
        super().__init__()
        self.epoch = tf.Variable(epoch, trainable=False, dtype=tf.int64)

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch.assign(epoch)


class Announcement(keras.callbacks.Callback):
    """Shows a line when training starts, unless `verbose` is 0."""

    def __init__(self, text: str):
        super().__init__()
        self.text = text

    def on_train_begin(self, logs=None):
        if self.params.get("verbose"):
            sys.stdout.write(f"{self.text}\n")
