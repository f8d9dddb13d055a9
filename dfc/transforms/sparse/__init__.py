"""Gradients that are zero but for some rows, and updates that touch these rows only. Read first: `sparse`.

In: a graph without gradient nodes. Out: the same, with updates by rows.
"""
