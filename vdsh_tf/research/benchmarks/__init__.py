"""What `tools/benchmark.py` measures, side by side in one run."""
