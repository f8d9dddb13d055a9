"""Passes that add checks, and run only when asked for.

In: a verified graph. Out: the same with checks. Read first: `finite_checks`.
"""
