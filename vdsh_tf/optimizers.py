"""Optimizers that suit consensus moves."""

import dataclasses
import warnings

import keras
import tensorflow as tf

from vdsh_tf import recipes

# Moves of front layers can be 1e-12; a larger epsilon hides them from Adam. A
# much smaller one divides moves by squares that have rounded to zero.
EPSILON = 1e-18
# From here on an optimizer's epsilon stalls front layers noticeably.
_LARGE_EPSILON = 1e-9


@keras.saving.register_keras_serializable("vdsh_tf")
class FusedAdam(keras.optimizers.Adam):
    """Keras' Adam with one TensorFlow kernel per variable instead of ten.

    The same rule and the same state. Beside a layer's four products, ten
    passes over its weights are a fifth of a step at width 256.

    Attributes:
        takes_sums: whether moves are those of all replicas already. Keras
            adds up what replicas hand over; `VDSH` has done so.
    """

    takes_sums = False

    def _all_reduce_sum_gradients(self, grads_and_vars):
        if self.takes_sums:
            return list(grads_and_vars)
        return super()._all_reduce_sum_gradients(grads_and_vars)

    def update_step(self, gradient, variable, learning_rate):
        if self.amsgrad:
            return super().update_step(gradient, variable, learning_rate)
        dtype = variable.dtype
        step = tf.cast(self.iterations.value + 1, dtype)
        index = self._get_variable_index(variable)
        return tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.pow(tf.cast(self.beta_1, dtype), step),
            beta2_power=tf.pow(tf.cast(self.beta_2, dtype), step),
            lr=tf.cast(learning_rate, dtype),
            beta1=tf.cast(self.beta_1, dtype),
            beta2=tf.cast(self.beta_2, dtype),
            epsilon=tf.cast(self.epsilon, dtype),
            grad=tf.cast(gradient, dtype),
        )


def adam(learning_rate: float = 1e-3, weight_decay: float = 0.0) -> FusedAdam:
    """Adam that sees small moves; weight decay is decoupled."""
    return FusedAdam(
        learning_rate, epsilon=EPSILON, weight_decay=weight_decay or None
    )


def for_replicas(optimizer, scope):
    """The optimizer, with variables on all replicas.

    Args:
        optimizer: of Keras, or None.
        scope: of the strategy.
    """
    if optimizer is None:
        return None
    with scope:
        if optimizer._distribution_strategy is not tf.distribute.get_strategy():
            optimizer = type(optimizer).from_config(optimizer.get_config())
    if isinstance(optimizer, FusedAdam):
        optimizer.takes_sums = True
    return optimizer


def rate_of(optimizer) -> float:
    """The present learning rate of an optimizer, on any strategy."""
    return float(keras.ops.convert_to_numpy(optimizer.learning_rate))


def rate_is_fixed(optimizer) -> bool:
    """Whether an optimizer follows a schedule of its own."""
    schedule = keras.optimizers.schedules.LearningRateSchedule
    return isinstance(optimizer._learning_rate, schedule)


def with_rate_of(optimizer, recipe):
    """A recipe that says nothing of the rate takes the optimizer's."""
    if recipe is None or optimizer is None or recipe.rate is not None:
        return recipe
    if rate_is_fixed(optimizer):
        return recipe
    return dataclasses.replace(recipe, rate=rate_of(optimizer))


def for_schedule(optimizer, schedule, recipe=None):
    """The optimizer that `VDSH.compile` was asked for, or an error.

    Args:
        optimizer: "auto", None, or anything `keras.optimizers.get` takes.
        schedule: of `solver.schedules`.
        recipe: `recipes.Recipe` whose weight decay "auto" has, or None.
    """
    if isinstance(optimizer, str) and optimizer == "auto":
        if not schedule.takes_optimizer:
            return None
        if recipe is None:
            return adam()
        return adam(recipes.RATE, recipe.weight_decay)
    if optimizer is None:
        return None
    try:
        optimizer = keras.optimizers.get(optimizer)
    except (ValueError, TypeError) as error:
        raise ValueError(
            '`optimizer` must be "auto", None, or an optimizer of Keras or '
            f"its name. Received: optimizer={optimizer!r:.80}."
        ) from error
    if not schedule.takes_optimizer:
        raise ValueError(
            f'schedule="{schedule.name}" is Algorithm 1 to the letter: its '
            "consensus is line 12, so `optimizer` must be None. Received: "
            f'optimizer={optimizer.name}. Use schedule="online" with it.'
        )
    epsilon = getattr(optimizer, "epsilon", 0.0)
    if epsilon > _LARGE_EPSILON:
        warnings.warn(
            f"{optimizer.name} has epsilon={epsilon:g}, but consensus moves "
            "of front layers can be as small as 1e-12: they may stall. Use "
            f"epsilon={EPSILON:g}, or vdsh_tf.optimizers.adam.",
            stacklevel=3,
        )
    return optimizer
