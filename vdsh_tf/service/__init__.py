"""A search service over HTTP: encoder, index, payloads; no TensorFlow."""
