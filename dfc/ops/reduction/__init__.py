"""Ops that reduce along axes: sums, extremes, statistics, prefix scans.

In: tensors and their axes. Out: records of the ops. Read first: `reductions`.
"""
