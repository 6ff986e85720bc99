"""What a training step logs: objective, accuracy, residuals and duals."""

import keras
import tensorflow as tf

from vdsh_tf.callbacks.convergence import LayerMean
from vdsh_tf.solver import objective


class SharedMean(keras.metrics.Mean):
    """A mean of values that are the same on all replicas.

    Reading it asks no other worker.
    """

    def add_variable(self, *args, **kwargs):
        kwargs["aggregation"] = "only_first_replica"
        return super().add_variable(*args, **kwargs)


class StepMetrics:
    """The metrics of `VDSH`, which has this as a base.

    Attributes:
        objective_metric, accuracy_metric: means over samples.
        layer_residual, layer_dual: LayerMeans.
    """

    def _add_metrics(self, layers):
        self.objective_metric = SharedMean(name="objective")
        self.accuracy_metric = SharedMean(name="accuracy")
        self.layer_residual = LayerMean(layers, name="layer_residual")
        self.layer_dual = LayerMean(layers, name="layer_dual")

    def _update_metrics(self, embedding, y, theta, classifier, weight=None):
        """Eq. 4 per sample, and accuracy: means over samples."""
        costs = objective.sample_costs(embedding, y, classifier)
        penalty = objective.penalty(theta, classifier, self.solver)
        count = tf.cast(tf.shape(y)[0], y.dtype)
        if weight is not None:
            count = tf.reduce_sum(tf.cast(weight, y.dtype))
        correct = self._correct(embedding, y, classifier)
        costs += tf.math.divide_no_nan(penalty, count)
        self.objective_metric.update_state(costs, weight)
        self.accuracy_metric.update_state(correct, weight)
        return self._logs()

    def _correct(self, embedding, y, classifier):
        # Of several labels, the best-scored one must be among them.
        scores = tf.matmul(embedding, classifier)[:, : self.num_classes]
        best = tf.argmax(scores, axis=-1)
        return tf.gather(y, best, batch_dims=1)

    def _sums(self, embedding, y, classifier, weight):
        """What `_update_from_sums` needs to know of some rows of a batch."""
        costs = objective.sample_costs(embedding, y, classifier)
        correct = self._correct(embedding, y, classifier)
        if weight is None:
            weight = tf.ones_like(costs)
        weight = tf.cast(weight, costs.dtype)
        values = (costs * weight, correct * weight, weight)
        return list(map(tf.reduce_sum, values))

    def _update_from_sums(self, costs, correct, count, theta, classifier):
        """`_update_metrics`, from sums over all replicas."""
        costs += objective.penalty(theta, classifier, self.solver)
        for metric, value in (
            (self.objective_metric, costs),
            (self.accuracy_metric, correct),
        ):
            metric.update_state(tf.math.divide_no_nan(value, count), count)
        return self._logs()

    def _logs(self):
        return {
            "objective": self.objective_metric.result(),
            "accuracy": self.accuracy_metric.result(),
        }

    def _update_layer_metrics(self, trace):
        places = [m - 1 for m in self.encoder.active]
        self.layer_residual.update_state(trace.residual, places)
        self.layer_dual.update_state(trace.dual, places)
        return {
            "residual": self.layer_residual.mean_over_layers(),
            "dual": self.layer_dual.mean_over_layers(),
        }
