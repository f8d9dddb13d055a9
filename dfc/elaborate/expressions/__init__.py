"""Expressions to entities: operators, brackets, calls of functions, of the prelude and of op records.

Read first: `expressions`, then `calls`.

In: expressions of the tree, in a scope. Out: entities, and nodes in the current block.
"""
