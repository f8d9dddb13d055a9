"""Ops that read or write by position: slices, gathers, scatters, segments, sorting and what is made of it.

In: tensors and positions in them. Out: records of the ops. Read first: `gather_scatter`, then `slice_pad`.
"""
