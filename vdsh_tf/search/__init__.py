"""Search by Hamming distance: codes, indexes, answers."""
