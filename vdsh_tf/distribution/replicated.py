"""Replicated: a Keras model that is trained by several devices.

Keras hands `tf.distribute` three things over that do not fit here. Its data
are sharded by rules that change the order of rows; its metrics are means of
what each replica has seen; and with several machines it cannot reduce logs
that are scalars. So Keras itself is told of no strategy: it trains, evaluates
and predicts in this process alone, but the function of a training step runs on
all replicas, each with its slice of the batch, and returns what is equal on
all of them.
"""

import contextlib

import keras
import tensorflow as tf

from vdsh_tf.distribution import replicas
from vdsh_tf.solver.groups import Group


class Replicated(keras.Model):
    """A model that knows the replicas it was made for.

    A subclass trains in `train_part(data, place)`; `place` says which slice
    of its batch `data` is, or is None for a whole batch.

    Attributes:
        replicas: `replicas.Replicas` of the strategy in whose scope the model
            was made, or None.
    """

    # Whether slices begin with the row before them, see `Replicas.slices`.
    takes_row_before = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.replicas = replicas.find()
        if self.replicas is not None:
            self._distribute_strategy = None

    def scope(self):
        """Where variables of the model must be made."""
        if self.replicas is None:
            return contextlib.nullcontext()
        return self.replicas.strategy.scope()

    def check_scope(self) -> None:
        """Refuses to train inside a strategy's scope."""
        if self.replicas is not None and tf.distribute.has_strategy():
            raise ValueError(
                "`fit` must be called outside of `strategy.scope()`, or "
                "validation would run on all devices as if it were training. "
                "Make and compile the model inside, and fit it after."
            )

    def train_step(self, data):
        return self.train_part(data, None)

    def train_part(self, data, place):
        raise NotImplementedError

    def group(self, measure) -> Group:
        """The replicas, for the solver; `measure` is that of `Group`."""
        local = _as_it_is
        if self.jit_compile:
            local = _compiled
        member = self.replicas.member()
        return Group(self.replicas.reduce, local, measure, member)

    def apply_moves(self, variables, moves) -> None:
        """Gives moves to the optimizer, or takes them as they are."""
        if self.optimizer is None:
            if self.replicas is not None:
                self.replicas.subtract(variables, moves)
                return
            for variable, move in zip(variables, moves, strict=True):
                variable.assign_sub(move)
            return
        if self.replicas is not None and not getattr(
            self.optimizer, "takes_sums", False
        ):
            # It adds up what it gets over all replicas, on which it is equal.
            moves = [move / self.replicas.count for move in moves]
        self.optimizer.apply(moves, variables)

    def _make_function(self, step_function):
        if self.replicas is None:
            return super()._make_function(step_function)
        if step_function != self.train_step:
            # XLA reaches variables of one device only.
            with self._without_xla():
                return super()._make_function(step_function)

        def one_step(batch):
            return self.replicas.run(
                self.train_part, batch, self.takes_row_before
            )

        if not self.run_eagerly:
            one_step = tf.function(
                one_step, reduce_retracing=True, autograph=False
            )

        def function(iterator):
            for _ in range(self.steps_per_execution):
                logs = one_step(next(iterator))
            return logs

        return function

    def make_predict_function(self, force=False):
        """Keras' function. XLA would compile it anew for every number of rows.

        That takes half a second at 48 layers, longer than most rows do.
        """
        with self._without_xla():
            return super().make_predict_function(force)

    @contextlib.contextmanager
    def _without_xla(self):
        wanted, self.jit_compile = self.jit_compile, False
        try:
            yield
        finally:
            self.jit_compile = wanted


def _as_it_is(function):
    return function


def _compiled(function):
    return tf.function(function, jit_compile=True, autograph=False)
