"""Training by several devices and machines, on `tf.distribute`."""
