"""Algorithm 1 of the paper to the letter, over tuples of tensors.

Z. Zhang, Y. Chen, V. Saligrama: "Efficient Training of Very Deep Neural
Networks for Supervised Hashing", CVPR 2016. Line numbers count the listing's
statements: 1-2 initialise; 5-6 top code and its dual; 8-9 hidden codes and
duals going down; 11 weight copies; 12 consensus; 13 weight duals; 14
classifier. Layers count from 1 to M, z[0] is the input. No Keras, no
variables; dtype follows the input.
"""

import tensorflow as tf

from vdsh_tf.solver import consensus
from vdsh_tf.solver import objective
from vdsh_tf.solver import subproblems
from vdsh_tf.solver import weight_copies
from vdsh_tf.solver.records import SampleState
from vdsh_tf.solver.records import Trace
from vdsh_tf.solver.records import Weights
from vdsh_tf.solver.records import numbered


def start_weights(theta, classifier):
    """Weights before the first iteration (line 1)."""
    theta = tuple(theta)
    return Weights(theta, theta, theta, classifier)


def start_samples(theta, x):
    """State by a forward pass (line 2): z_m = f_m, all duals zero."""
    z = [x]
    for kernel in theta:
        z.append(tf.nn.relu(tf.matmul(z[-1], kernel)))
    z = tuple(z[1:])
    zeros = tuple(map(tf.zeros_like, z))
    return SampleState(z, u=zeros, a=zeros, prev_z=z, prev_a=zeros)


def sample_step(weights, x, state, y, gamma, solver, weight=None, reduce=None):
    """Lines 5-11 for a batch of samples: codes, duals, weight moves.

    Args:
        weights: Weights.
        x: [batch, d], inputs.
        state: SampleState of the batch.
        y: [batch, C], label vectors.
        gamma: one scalar per layer.
        solver: config.Solver.
        weight: [batch, 1] sample weights, or None.
        reduce: see `groups.Group`, for step lengths that samples share.

    Returns:
        The batch's new SampleState, its Sums, and the Trace without an
        embedding.
    """
    beta, top = solver.beta, len(weights.theta)
    copies = numbered(_copies(weights, x, state))
    z, u = {0: x, **numbered(state.z)}, numbered(state.u)
    f = {m: tf.nn.relu(copies[m].matvec(z[m - 1])) for m in copies}
    margin = subproblems.margin_of(y, weights.classifier, solver)

    # Lines 5-6. The classification error enters at the top...
    center = f[top] - u[top]
    z[top] = center + subproblems.solve_top_code(
        center, y, weights.classifier, beta
    )
    u[top] += z[top] - f[top]

    # Lines 8-9. ...and is handed down, one layer at a time.
    for m in range(top - 1, 0, -1):
        center = f[m] - u[m]
        response = copies[m + 1].matvec(center)
        move, _ = subproblems.solve_hidden_code(
            z[m + 1] + u[m + 1] - response,
            copies[m + 1],
            f[m] > subproblems.KINK,
            response,
            solver,
            margin=margin if m + 1 == top else None,
            weight=weight,
            reduce=reduce,
        )
        z[m] = center + move
        u[m] += z[m] - f[m]

    # Line 11. Once the codes are fixed, no layer waits for another.
    a = {}
    for m, center in numbered(_centers(weights, x, state)).items():
        response = center.matvec(z[m - 1])
        a[m] = subproblems.solve_copy(
            subproblems.row_sum(tf.square(z[m - 1])),
            z[m] + u[m] - response,
            response,
            beta,
            gamma[m - 1],
            margin=margin if m == top else None,
        )

    residual = objective.mean_norms([z[m] - f[m] for m in f])
    inputs = [z[m - 1] for m in a]
    sums = consensus.sums_of(inputs, list(a.values()), z[top], y, weight)
    new = SampleState(
        tuple(z[m] for m in a),
        tuple(u.values()),
        tuple(a.values()),
        prev_z=state.z,
        prev_a=state.a,
    )
    dual = beta * objective.mean_norms(new.u)
    return new, sums, Trace(None, residual, dual)


def consensus_step(weights, sums, gamma, solver):
    """Lines 12-14: what all samples agree on.

    Line 13 needs no work: a dual follows from theta and its previous value.

    Returns:
        The new Weights, and for each layer theta - theta+.
    """
    moves = consensus.theta_moves(weights.theta, sums, gamma, solver)
    pairs = zip(weights.theta, moves, strict=True)
    theta = tuple(kernel - move for kernel, move in pairs)
    classifier = subproblems.solve_classifier(sums.zz, sums.zy, solver.alpha_w)
    new = Weights(theta, weights.theta, weights.prev_theta, classifier)
    return new, moves


def _copies(weights, x, state):
    """theta~_i of every layer."""
    return [
        weight_copies.copy_of(prev, prev2, *moves)
        for prev, prev2, moves in zip(
            weights.prev_theta,
            weights.prev2_theta,
            state.moves(x),
            strict=True,
        )
    ]


def _centers(weights, x, state):
    """theta + v_i of every layer, where line 11 starts from."""
    return [
        weight_copies.center_of(theta, prev, x_m, a)
        for theta, prev, (x_m, a, *_) in zip(
            weights.theta, weights.prev_theta, state.moves(x), strict=True
        )
    ]
