"""The version of this package, as bundles state it."""

__version__ = "0.2.0"
