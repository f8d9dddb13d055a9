"""The textual form of graphs: `.dfg` text that builds an equal graph, also of ops that the language has no form for.

In: a graph. Out: text. Read first: `printer`, then `notation` (types, sizes, values); `expressions` says which blocks
can be written as one expression.
"""
