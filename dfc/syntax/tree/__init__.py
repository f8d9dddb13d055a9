"""The nodes of the syntax tree. Read first: `tree`, which lists them all.

In: the rules of a text that match. Out: nodes with spans, for elaboration and printers.
"""
