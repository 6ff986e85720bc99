"""Problems of the dense oracle, as the solver takes them."""

import tensorflow as tf

from vdsh_tf.config import Solver


def solver_of(problem, schedule, **settings) -> Solver:
    """The penalties of a `reference.Problem`, and other settings."""
    return Solver(
        alpha_theta=problem.alpha_theta,
        alpha_w=problem.alpha_w,
        beta=problem.beta,
        margin=problem.margin,
        margin_weight=problem.margin_weight,
        **{"gamma": problem.gamma, "preserve": 0.0, **settings},
    ).resolved(schedule)


def weights_of(problem):
    """Per-layer kernels, and the classifier, as tensors."""
    theta = [tf.constant(t.T) for t in problem.theta]
    return theta, tf.constant(problem.classifier)
