"""Variables, their first values, generators of random numbers, and what a program says to its host.

In: declarations of state, and calls of its methods. Out: resources with their first values, and nodes with effects.
Read first: `state`, then `variables` and `initial`.
"""
