"""Algorithm 1 in TensorFlow: pure functions over tuples, no Keras."""
