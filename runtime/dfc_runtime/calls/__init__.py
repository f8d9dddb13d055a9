"""Calls of entries: from arguments to native code and back.

In: arguments of a call. Out: its results, and new state. Read first: `calls`, then `sizes` and `hosts`.
"""
