"""Passes that look at few nodes at a time: rewriting, folding, merging what is equal, dropping what is unused."""
