"""A Keras metric with one running mean per layer."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("vdsh_tf")
class LayerMean(keras.metrics.Metric):
    """Mean over batches of one number per layer; frozen layers read 0.

    Args:
        layers: number of layers.
    """

    def __init__(self, layers: int, name="layer_mean", **kwargs):
        super().__init__(name=name, **kwargs)
        self.layers = layers
        self.total = self.add_weight(
            shape=(layers,), initializer="zeros", name="total"
        )
        self.count = self.add_weight(
            shape=(layers,), initializer="zeros", name="count"
        )

    def update_state(self, values, places):
        """Adds `values`, one for each layer number in `places` (from 0)."""
        places = [[p] for p in places]
        values = tf.cast(values, self.total.dtype)
        shape = [self.layers]
        self.total.assign_add(tf.scatter_nd(places, values, shape))
        self.count.assign_add(
            tf.scatter_nd(places, tf.ones_like(values), shape)
        )

    def result(self):
        return tf.math.divide_no_nan(self.total.value, self.count.value)

    def mean_over_layers(self):
        """One number for the progress bar, over the layers that ran."""
        return tf.math.divide_no_nan(
            tf.reduce_sum(self.total), tf.reduce_sum(self.count)
        )

    def get_config(self):
        return {**super().get_config(), "layers": self.layers}
