"""Sums over ranks whose bits do not depend on their number. Read first: `reduction_plan`, then `reducer`.

In: what each task adds. Out: the sum, the same bits for each of them.
"""
