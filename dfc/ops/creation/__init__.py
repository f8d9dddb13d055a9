"""Tensors that come from no tensor: constants, ranges, random numbers.

In: attributes alone. Out: records of the ops. Read first: `sources`, then `philox`.
"""
