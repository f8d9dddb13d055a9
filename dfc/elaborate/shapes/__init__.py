"""Sizes: what must hold of them, where they come from, which are found in the run, and how large a program may grow."""
