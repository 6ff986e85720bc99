"""How Algorithm 1 meets batches: two schedules, one interface.

online: every batch starts from a forward pass, runs one or more iterations as
    if it were all data, and proposes its consensus. No state per sample.
full:   the state of every sample persists, and one consensus closes each pass
    over the data. Independent of how the data is split into batches.

`step` gets one batch. This is the only place that knows the schedules by name.
"""

import hashlib

import numpy as np
import tensorflow as tf

from vdsh_tf.config import require
from vdsh_tf.solver import consensus
from vdsh_tf.solver import full
from vdsh_tf.solver import groups
from vdsh_tf.solver import online
from vdsh_tf.solver import several
from vdsh_tf.solver.records import Update
from vdsh_tf.solver.store import SampleStore
from vdsh_tf.solver.store import check_memory


class Online:
    """Batches on their own; the default."""

    name = "online"
    # Whether an optimizer may apply the moves, and depth may grow.
    takes_optimizer = True
    store = None

    def step(
        self, theta, classifier, x, y, solver, exact, weight=None, group=None
    ) -> Update:
        """See `online.step`, and for a group `several.step`."""
        batch = (theta, classifier, x, y, solver, exact, weight)
        if group is None:
            return online.step(*batch)
        return several.step(*batch, group)


class Full:
    """Algorithm 1 to the letter; keeps 5 numbers per sample and unit.

    Attributes:
        stores: SampleStores, made when training starts: one, or one for each
            worker of this process, which keeps the state of its own samples.
    """

    name = "full"
    takes_optimizer = False

    def __init__(self):
        self.stores: list[SampleStore] = []
        # Of the rows that the stores are about: others get some of their own.
        self._digest: bytes | None = None

    @property
    def store(self) -> SampleStore | None:
        """The first store, or None before training."""
        return self.stores[0] if self.stores else None

    def prepare(self, weights, data, solver, normalize, shards=None):
        """Makes the store if there is none.

        Args:
            weights: starting theta and classifier, as tensors.
            data: arrays (x, y) or (x, y, sample_weight), or a finite `tf.data`
                dataset of batches of them.
            solver: config.Solver.
            normalize: function that the encoder applies to raw rows.
            shards: a function of the number of rows that gives `groups.Shards`,
                if there are several workers.

        Returns:
            A dataset of ((x, index), y, ...) rows; the index is a row's place
            in the store.
        """
        if isinstance(data, tf.data.Dataset):
            data = _gathered(data, weights)
        x, *others = data
        weight = others[1] if len(others) > 1 else None
        index = np.arange(len(x), dtype=np.int32)
        made = shards(len(x)) if shards is not None else None
        digest = _digest(data)
        if self.store is None or self._digest != digest:
            self.stores = start_stores(
                *weights, x, solver, normalize, weight=weight, shards=made
            )
            self._digest = digest
        for own in () if made is None else made.rows:
            index[own] = np.arange(len(own))
        return tf.data.Dataset.from_tensor_slices(((x, index), *others))

    def step(
        self, theta, classifier, x, y, solver, exact, weight=None, group=None
    ) -> Update:
        """One batch of a pass; moves are zero until all samples were seen.

        Args:
            theta, classifier: current weights, as tensors.
            x: unit-length rows [batch, d] and their places [batch].
            y: [batch, C], label vectors.
            solver: config.Solver.
            exact: not used; line 14 is always solved.
            weight: [batch] sample weights, or None.
            group: groups.Group, if the batch is a part of a larger one.
        """
        x, index = x
        if self.store is None:
            raise RuntimeError(
                "The full schedule needs all samples before its first step: "
                "train with `fit`."
            )
        store = self.stores[0 if group is None else group.member]
        if weight is not None:
            weight = tf.cast(weight, y.dtype)[:, None]
        gamma = tuple(map(tf.convert_to_tensor, store.gamma))
        weights = store.weights(theta, classifier)
        state, sums, trace = full.sample_step(
            weights, x, store.read(index), y, gamma, solver, weight
        )
        store.write(index, state)
        # The step saw every sample's own copies; Eq. 4 is about theta.
        embedding = full.start_samples(theta, x).z[-1]
        trace = trace._replace(embedding=embedding)
        rows = tf.shape(index)[0]
        if group is not None:
            sums, trace, rows = groups.close(group, sums, trace, rows)
        total = store.add(sums, tf.cast(rows, tf.int32))

        def close_pass():
            new, moves = full.consensus_step(weights, total, gamma, solver)
            store.keep_history(new)
            store.clear_sums()
            return (*moves, classifier - new.classifier)

        def go_on():
            return tuple(map(tf.zeros_like, (*theta, classifier)))

        done = store.seen >= store.pass_samples
        *moves, classifier_move = tf.cond(done, close_pass, go_on)
        return Update(tuple(moves), classifier_move, trace)


SCHEDULES = {schedule.name: schedule for schedule in (Online, Full)}


def make(name: str) -> Online | Full:
    """The schedule called `name`."""
    require(
        isinstance(name, str) and name in SCHEDULES,
        "schedule",
        name,
        " or ".join(SCHEDULES),
        "the two ways to run Algorithm 1",
    )
    return SCHEDULES[name]()


def _gathered(dataset, weights):
    """Arrays of all batches; stops where their state would fill the memory."""
    batches = dataset.cardinality()
    if batches < 0:
        endless = batches == tf.data.INFINITE_CARDINALITY
        length = "without end" if endless else "of unknown length"
        raise ValueError(
            "The full schedule keeps state for every row, so that there must "
            f"be an end to them. Received: a dataset {length}. Leave out "
            "`.repeat()`, give arrays, say how many batches there are by "
            "`dataset.apply(tf.data.experimental.assert_cardinality(n))`, or "
            'use schedule="online".'
        )
    dims = [kernel.shape[1] for kernel in weights[0]]
    found, count = [], 0
    for batch in dataset:
        found.append(tuple(map(np.asarray, batch)))
        count += len(found[-1][0])
        check_memory(count, dims, weights[1].dtype.size, say=False)
    return [np.concatenate(part) for part in zip(*found, strict=True)]


def _digest(arrays):
    """Tells rows, labels and weights from others."""
    digest = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def start_stores(
    theta, classifier, x, solver, normalize, weight=None, shards=None
) -> list[SampleStore]:
    """SampleStores after line 2: every code by a forward pass.

    Args:
        theta, classifier: starting weights, as tensors.
        x: [N, d] array of raw rows.
        solver: config.Solver.
        normalize: function that the encoder applies to raw rows.
        weight: [N] sample weights, or None.
        shards: groups.Shards; None for one store of all rows.
    """
    if shards is None:
        shards = groups.Shards(
            [np.arange(len(x))], [""], lambda values: values[0]
        )
    stores, squares = [], []
    for rows, device in zip(shards.rows, shards.devices, strict=True):
        part = np.ones(len(rows)) if weight is None else weight[rows]
        with tf.device(device):
            store = SampleStore(
                full.start_weights(theta, classifier), len(rows), len(x)
            )
            found = _fill(store, theta, x[rows], part, normalize)
        stores.append(store)
        squares.append([found, np.sum(part, dtype="f8")])
    sq_norms, total = shards.total(squares)
    gamma = consensus.relative_gamma(list(sq_norms / total), solver)
    for store in stores:
        for variable, value in zip(store.gamma, gamma, strict=True):
            variable.assign(tf.cast(value, variable.dtype))
    return stores


def _fill(store, theta, x, weight, normalize, batch_size=1024):
    """Writes the codes of rows; returns the sum of |x|^2 for each layer."""
    sq_norms = np.zeros(len(theta))
    for start in range(0, len(x), batch_size):
        rows = normalize(x[start : start + batch_size])
        state = full.start_samples(theta, rows)
        store.write(tf.range(start, start + len(rows)), state)
        inputs = (rows, *state.z[:-1])
        part = weight[start : start + batch_size]
        sq_norms += [part @ np.square(z, dtype="f8").sum(1) for z in inputs]
    return sq_norms
