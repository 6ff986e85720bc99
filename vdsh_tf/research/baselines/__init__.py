"""Other ways to learn codes, to compare with on the same data and metrics."""
