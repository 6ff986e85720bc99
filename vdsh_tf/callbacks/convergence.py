"""Residual and dual of every layer, while training."""

import keras
import numpy as np
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
        self.total, self.count = (
            # Values are the same on all replicas of a model.
            self.add_variable(
                shape=(layers,),
                initializer="zeros",
                aggregation="only_first_replica",
                name=part,
            )
            for part in ("total", "count")
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


class LayerConvergence(keras.callbacks.Callback):
    """Residual and dual of every layer, kept and written to TensorBoard.

    Attributes:
        residual, dual: one [M] array per epoch; 0 for frozen layers.

    Args:
        log_dir: TensorBoard folder, or None to keep the numbers only.
    """

    def __init__(self, log_dir: str | None = None):
        super().__init__()
        self.log_dir = log_dir
        self.residual: list[np.ndarray] = []
        self.dual: list[np.ndarray] = []
        self._writer = None

    def on_epoch_end(self, epoch, logs=None):
        residual = np.asarray(self.model.layer_residual.result())
        dual = np.asarray(self.model.layer_dual.result())
        self.residual.append(residual)
        self.dual.append(dual)
        if self.log_dir is None:
            return
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self.log_dir)
        with self._writer.as_default(step=epoch):
            for m in self.model.encoder.active:
                tf.summary.scalar(f"residual/layer_{m:02d}", residual[m - 1])
                tf.summary.scalar(f"dual/layer_{m:02d}", dual[m - 1])
            for name, value in (logs or {}).items():
                tf.summary.scalar(f"epoch/{name}", value)
            self._writer.flush()

    def on_train_end(self, logs=None):
        if self._writer is not None:
            self._writer.close()
            self._writer = None
