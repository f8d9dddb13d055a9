"""Statements to nodes: bindings, assignments, branches, loops, and the effects allowed in each.

Read first: `statements`.
"""
