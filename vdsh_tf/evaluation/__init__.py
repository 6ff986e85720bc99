"""Retrieval quality of binary codes, in NumPy."""
