"""A part of a program, or of one of its entries, as a program of its own.

In: a graph, and values of one of its entries or names of some. Out: a graph with one entry that computes these, or with
these entries. Read first: `extraction`.
"""
