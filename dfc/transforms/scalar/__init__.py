"""Passes that look at few nodes at a time: rewriting, folding, merging what is equal, dropping what is unused.

In: a verified graph. Out: a smaller one of the same meaning. Read first: `simplify`, then `rules`.
"""
