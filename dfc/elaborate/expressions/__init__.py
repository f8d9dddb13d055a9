"""Expressions to entities: operators, brackets, calls of functions, of the prelude and of op records.

Read first: `expressions`, then `calls`.
"""
