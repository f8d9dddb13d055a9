"""Contractions as what a library computes: in come kernels, out come descriptions in the terms of such libraries.

`products` says which are products of matrices by rows, columns, leading dimensions and a batch; `convolutions` which
are convolutions by batch, channels, groups, windows, steps and dilations, forward or by one of the operands;
`finishing` is what is left to do with sums that a library made. Analysis of kernels alone: whether there is a library,
and whether it pays, is for a target to say. Read `convolution` first.
"""
