"""Comparisons: other methods, benchmarks, the paper's experiments."""
