"""Search by Hamming distance: indexes, and rows in, hits out."""
