"""Optimizers that suit consensus moves."""

import warnings

import keras

# Consensus moves are as small as 1e-6; a larger epsilon hides them from Adam.
EPSILON = 1e-12


def adam(
    learning_rate: float = 1e-3, weight_decay: float = 0.0
) -> keras.optimizers.Adam:
    """Adam that sees small moves; weight decay is decoupled."""
    return keras.optimizers.Adam(
        learning_rate, epsilon=EPSILON, weight_decay=weight_decay or None
    )


def for_schedule(optimizer, schedule: str):
    """The optimizer that `VDSH.compile` was asked for, or an error.

    Args:
        optimizer: "auto", None, or anything `keras.optimizers.get` takes.
        schedule: "online" or "full".
    """
    if isinstance(optimizer, str) and optimizer == "auto":
        return adam() if schedule == "online" else None
    if optimizer is None:
        return None
    optimizer = keras.optimizers.get(optimizer)
    if schedule == "full":
        raise ValueError(
            'schedule="full" is Algorithm 1 to the letter: its consensus is '
            "line 12, so `optimizer` must be None. Received: "
            f'optimizer={optimizer.name}. Use schedule="online" with it.'
        )
    epsilon = getattr(optimizer, "epsilon", 0.0)
    if epsilon > 1e-9:
        warnings.warn(
            f"{optimizer.name} has epsilon={epsilon:g}, but consensus moves "
            "can be as small as 1e-6: front layers may stall. Use "
            f"epsilon={EPSILON:g}, or vdsh_tf.optimizers.adam.",
            stacklevel=3,
        )
    return optimizer
