"""Labelled vectors: sources, splits, batches, and checks where they enter."""
