"""Writes trained encoders for serving: SavedModel and ONNX."""
