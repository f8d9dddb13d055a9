"""Sizes: what must hold of them, where they come from, which are found in the run, and how large a program may grow.

In: sizes of values in the making. Out: what is proved, and checks for what is not. Read first: `obligations`.
"""
