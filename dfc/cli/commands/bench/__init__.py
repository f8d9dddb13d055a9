"""The commands of `dfc bench`."""
