"""Checkpoints that all ranks write together. Read first: `saving`.

In: the state of all ranks. Out: one checkpoint, published by rank 0.
"""
