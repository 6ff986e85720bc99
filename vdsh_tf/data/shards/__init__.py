"""Labelled rows in many files, read piece by piece: larger than memory."""
