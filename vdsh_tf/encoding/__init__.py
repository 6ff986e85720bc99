"""Codes of Parquet files: on this machine, or on a Ray cluster."""
