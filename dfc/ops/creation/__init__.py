"""Tensors that come from no tensor: constants, ranges, random numbers."""
