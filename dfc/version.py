"""The version of this package, as bundles state it."""

__version__ = "0.1.0"
