"""Replicas: the devices, here and elsewhere, that share every batch.

`tf.distribute` has one replica of a model per device. Each takes its slice of
every batch, in the order of replicas; what they share they add up by
all-reduces (`solver.groups`), and so all have the same weights at all times.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from vdsh_tf.solver.groups import Shards


class Place(NamedTuple):
    """Where a slice lies in its batch.

    Attributes:
        start: number of the first row.
        rows: number of rows of the whole batch.
    """

    start: tf.Tensor | int
    rows: tf.Tensor | int


class Replicas:
    """All replicas of a strategy.

    Attributes:
        strategy: `MirroredStrategy` or `MultiWorkerMirroredStrategy`.
        count: number of replicas, on all machines.
        local: numbers of those in this process, from 0 to count - 1.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.count = strategy.num_replicas_in_sync
        numbers = tf.function(lambda: strategy.run(_number))()
        numbers = strategy.experimental_local_results(numbers)
        self.local = tuple(map(int, numbers))

    def slices(self, batch, before: bool = False) -> list:
        """Slices of a batch for the replicas of this process.

        Args:
            batch: nested tensors with as many rows each.
            before: whether a slice begins with one row more, the one before
                it; before the first row of a batch is its last.

        Returns:
            For each local replica the slice and its Place.
        """
        first = tf.nest.flatten(batch)[0]
        # Shapes that are known stay so, as XLA wants them.
        rows = first.shape[0]
        if rows is None:
            rows = tf.shape(first)[0]
        found = []
        for number in self.local:
            start = rows * number // self.count
            end = rows * (number + 1) // self.count

            def cut(values, start=start, end=end):
                part = values[start:end]
                if not before:
                    return part
                row = (start + rows - 1) % rows
                return tf.concat([values[row : row + 1], part], axis=0)

            found.append((tf.nest.map_structure(cut, batch), (start, rows)))
        return found

    def run(self, step, batch, before: bool = False):
        """Runs `step(slice, place)` on each replica.

        Returns:
            What the first replica returned: `step` gives the same on all.
        """
        with tf.device("/cpu:0"):
            slices = self.slices(batch, before)

        def own(slices):
            data, place = slices[self.member()]
            return step(data, Place(*place))

        outputs = self.strategy.run(own, args=(slices,))
        return tf.nest.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0],
            outputs,
        )

    def member(self) -> int:
        """Which of the local replicas calls, inside `run`."""
        number = tf.get_static_value(tf.convert_to_tensor(_number()))
        return self.local.index(int(number))

    def reduce(self, tensors: list) -> list:
        """Sums of tensors over all replicas, by one all-reduce.

        Args:
            tensors: of one type, and of the same shapes on all replicas.
        """
        context = tf.distribute.get_replica_context()
        packed = tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0)
        added = context.all_reduce(tf.distribute.ReduceOp.SUM, packed)
        sizes = [t.shape.num_elements() for t in tensors]
        return [
            tf.reshape(part, t.shape)
            for part, t in zip(tf.split(added, sizes), tensors, strict=True)
        ]

    def subtract(self, variables, moves) -> None:
        """`variable -= move`, inside `run`; moves are equal on all replicas."""

        def subtract_all(strategy, moves):
            for variable, move in zip(variables, moves, strict=True):
                strategy.extended.update(
                    variable.value,
                    lambda own, value: own.assign_sub(value),
                    args=(move,),
                    group=False,
                )

        context = tf.distribute.get_replica_context()
        context.merge_call(subtract_all, args=(list(moves),))

    def shards(self, rows: int, batch_size: int) -> Shards:
        """Rows of the local replicas, where `slices` of batches are theirs.

        Args:
            rows: number of all rows, taken in their order.
            batch_size: of the whole batches.
        """
        owned: list[list] = [[] for _ in self.local]
        for first in range(0, rows, batch_size):
            size = min(batch_size, rows - first)
            for own, number in zip(owned, self.local, strict=True):
                start = first + size * number // self.count
                end = first + size * (number + 1) // self.count
                own.append(np.arange(start, end))
        devices = self.strategy.extended.worker_devices
        return Shards(list(map(np.concatenate, owned)), devices, self.total)

    def total(self, values: list) -> list:
        """Sums over all replicas of one list of arrays per local replica.

        For use outside of `run`.
        """
        numbers = [[tf.constant(v, tf.float64) for v in own] for own in values]

        @tf.function
        def add_up():
            def own():
                return self.reduce(numbers[self.member()])

            found = self.strategy.run(own)
            return [
                self.strategy.experimental_local_results(f)[0] for f in found
            ]

        return [part.numpy() for part in add_up()]


def find() -> Replicas | None:
    """Replicas of the strategy in whose scope this is called, if any."""
    if not tf.distribute.has_strategy():
        return None
    strategy = tf.distribute.get_strategy()
    if isinstance(strategy, tf.distribute.OneDeviceStrategy):
        return None
    kinds = (
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
    )
    if not isinstance(strategy, kinds):
        raise ValueError(
            "The strategy must be MirroredStrategy (several devices) or "
            "MultiWorkerMirroredStrategy (several machines), which have all "
            "weights on all devices. Received: "
            f"{type(strategy).__name__}."
        )
    return Replicas(strategy)


def _number():
    return tf.distribute.get_replica_context().replica_id_in_sync_group
