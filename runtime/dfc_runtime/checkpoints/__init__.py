"""Checkpoints: the state of a program in files, published whole or not at all, never at the cost of the one before.

In: a `State` and a folder. Out: `step-N` folders, and state again. Read first: `store`, then `format`, `saving` and
`restore`.
"""
