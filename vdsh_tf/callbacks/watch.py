"""Watch: a run that collapses or diverges goes back, or stops."""

import math
import warnings

import keras
import numpy as np

from vdsh_tf import codes
from vdsh_tf.callbacks.growth import GrowDepth


class CollapsedError(RuntimeError):
    """Training broke down, and going back did not help."""


class Watch(keras.callbacks.Callback):
    """Notices when training breaks down, and goes back.

    After every epoch the objective must be finite, and a sample of rows must
    have more than one code. If not, the weights of the last good epoch come
    back, all rates are multiplied by `SLOWER`, and training goes on; after
    `TRIES` times it stops with a CollapsedError. Logs `distinct_codes`, the
    number of codes in the sample.

    Args:
        rows: [n, d], raw rows to look at.
        growth: GrowDepth that sets the rates, or None.
        tries: times that training goes back before it stops; 0 where there is
            no rate to lower.
        look_at_codes: whether one code for all rows counts as broken down.
    """

    TRIES = 3
    SLOWER = 0.3

    def __init__(
        self,
        rows,
        growth: GrowDepth | None = None,
        tries: int = TRIES,
        look_at_codes: bool = True,
    ):
        super().__init__()
        self.most_tries = tries
        self.look_at_codes = look_at_codes
        self.rows = rows
        self.growth = growth
        self.tries = 0
        self._good: list | None = None

    def on_epoch_begin(self, epoch, logs=None):
        # Not when training begins: another callback may restore a backup.
        if self._good is None:
            self._good = self.model.get_weights()

    def on_epoch_end(self, epoch, logs=None):
        logs = {} if logs is None else logs
        broken = self._broken(logs)
        if broken is None:
            self._good = self.model.get_weights()
            return
        self.model.set_weights(self._good)
        self.tries += 1
        if self.tries > self.most_tries:
            before = f", as {self.most_tries} times before, each time at"
            before = f"{before} smaller rates" if self.most_tries else ""
            raise CollapsedError(
                f"Training must lead to finite weights and different codes; "
                f"after epoch {epoch + 1} {broken}{before}. The weights are "
                "those of the last good epoch. Look at the features "
                "(constant? huge?), or train with a smaller `rate` in the "
                "recipe, or other penalties."
            )
        warnings.warn(
            f"After epoch {epoch + 1} {broken}. Training goes back to the "
            f"last good weights, at {self.SLOWER:g} of the rate.",
            stacklevel=2,
        )
        if self.growth is not None:
            self.growth.slow_down(self.SLOWER)

    def _broken(self, logs):
        """What is wrong, in words, or None."""
        objective = logs.get("objective")
        if objective is not None and not math.isfinite(objective):
            return f"the objective is {objective}"
        embedding = np.asarray(self.model.encoder(self.rows))
        if not np.isfinite(embedding).all():
            return "the weights are not finite"
        distinct = len(np.unique(codes.pack(embedding > 0), axis=0))
        logs["distinct_codes"] = distinct
        if self.look_at_codes and distinct == 1 and len(self.rows) > 1:
            return "all items have one code"
        return None
