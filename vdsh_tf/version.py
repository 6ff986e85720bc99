"""Version of the package, where setup.py can read it without importing."""

__version__ = "0.1.0"
