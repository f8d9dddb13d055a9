"""Statements to nodes: bindings, assignments, branches, loops, and the effects allowed in each.

Read first: `statements`.

In: statements of the tree. Out: nodes in the current block, and a scope for what follows.
"""
