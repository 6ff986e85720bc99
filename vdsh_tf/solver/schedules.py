"""How Algorithm 1 meets batches: online (default) and full.

Both run the same `admm.sample_step` and `admm.consensus_step`.

online: every batch starts from a forward pass, runs one or more iterations as
    if it were all data, and proposes its consensus. No state per sample.
full:   the state of every sample persists, and one consensus closes each pass
    over the data. Independent of how the data is split into batches.
"""

import numpy as np
import tensorflow as tf

from vdsh_tf.solver import admm
from vdsh_tf.solver import store
from vdsh_tf.solver import weight_copies


def penalties_of(solver, gamma):
    """admm.Penalties from settings and one gamma a layer."""
    return admm.Penalties(
        solver.alpha_theta, solver.alpha_w, solver.beta, tuple(gamma),
        solver.margin, solver.margin_weight,
    )  # fmt: skip


def fixed_gamma(solver, num_layers):
    """The user's gamma for every layer, or None when it is relative."""
    if solver.gamma is None:
        return None
    return (None, *[solver.gamma] * num_layers)


def online_step(theta, classifier, x, y, solver):
    """Iterates on one batch from a forward start.

    Args:
        theta: per-layer kernels, entry 0 None.
        classifier: [K, C].
        x: [batch, d], unit-length rows.
        y: [batch, C], label vectors.
        solver: config.Solver.

    Returns:
        weights: admm.Weights after the last consensus.
        moves: how far theta moved, layer by layer: theta - theta+.
        sums: admm.Sums of the last sweep.
        trace: admm.Trace; its embedding is that of `theta` itself.
    """
    state, responses = admm.start_samples(theta, x)
    along = None
    if solver.input_metric:
        along = tuple(
            weight_copies.directions(x, solver.input_metric)
            for x in state.z[:-1]
        )
    gamma = fixed_gamma(solver, len(theta) - 1)
    if gamma is None:
        gamma = admm.relative_gamma(
            state.z, solver.beta, solver.copy_step, along
        )
    penalties = penalties_of(solver, gamma)
    weights = admm.start_weights(theta, classifier)
    embedding = state.z[-1]
    moves = []
    for sweep in range(solver.sweeps):
        state, sums, trace = admm.sample_step(
            weights, state, y, penalties, solver,
            responses if sweep == 0 else None, along,
        )  # fmt: skip
        weights, move = admm.consensus_step(weights, sums, penalties)
        moves.append(move)
    total = (None, *map(tf.add_n, zip(*[m[1:] for m in moves], strict=True)))
    return weights, total, sums, trace._replace(embedding=embedding)


def start_store(theta, classifier, x, solver, normalize, batch_size=1024):
    """A SampleStore after line 2: every code by a forward pass.

    Args:
        theta, classifier: starting weights, as tensors.
        x: [N, d] array of raw rows.
        solver: config.Solver.
        normalize: function that the encoder applies to raw rows.
        batch_size: rows of a forward pass; does not change the result.
    """
    weights = admm.start_weights(theta, classifier)
    store = store.SampleStore(weights, len(x))
    sq_norms = np.zeros(len(theta) - 1)
    for start in range(0, len(x), batch_size):
        rows = normalize(x[start : start + batch_size])
        state, _ = admm.start_samples(theta, rows)
        zeros = tuple(map(tf.zeros_like, state.z))
        index = tf.range(start, start + len(rows))
        store.write(
            index,
            state._replace(a=zeros, prev_z=state.z, prev_a=zeros),
        )
        sq_norms += [np.sum(np.square(z, dtype="f8")) for z in state.z[:-1]]
    gamma = fixed_gamma(solver, len(theta) - 1)
    if gamma is None:
        scale = solver.beta * (1.0 / solver.copy_step - 1.0)
        gamma = (None, *(scale * sq_norms / len(x)))
    for variable, value in zip(store.gamma, gamma[1:], strict=True):
        variable.assign(value)
    return store


def full_step(store, theta, classifier, x, index, y, solver, assign):
    """One batch of a pass; closes the pass when all samples have been seen.

    Args:
        store: SampleStore.
        theta, classifier: current weights, as tensors.
        x: [batch, d], unit-length rows.
        index: [batch], their places in the store.
        y: [batch, C], label vectors.
        solver: config.Solver.
        assign: called with the new theta and classifier at the consensus.

    Returns:
        admm.Trace.
    """
    gamma = (None, *[tf.convert_to_tensor(g) for g in store.gamma])
    penalties = penalties_of(solver, gamma)
    weights = store.weights(theta, classifier)
    state, sums, trace = admm.sample_step(
        weights, store.read(index, x), y, penalties, solver
    )
    store.write(index, state)
    total = store.add(sums)

    def close_pass():
        new, _ = admm.consensus_step(weights, total, penalties)
        store.keep_history(new)
        store.clear_sums()
        assign(new.theta, new.classifier)
        return True

    tf.cond(total.count >= store.num_samples, close_pass, lambda: False)
    return trace
