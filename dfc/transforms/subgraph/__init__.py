"""A part of an entry as a program of its own.

In: a graph and values of one of its entries. Out: a graph with one entry that computes these. Read first:
`extraction`.
"""
