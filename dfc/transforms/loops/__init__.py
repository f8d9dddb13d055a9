"""Passes about loops: what can be computed before them.

In: a verified graph. Out: the same with fewer nodes inside of loops. Read first: `hoist_inputs`.
"""
