"""Buffers: memory for what steps work on.

In: steps over buffer views. Out: a `dfc.kernels.program.Program`, whose arena is planned. Read first: `buffers`, then
`liveness`, `slots` and `inplace`.
"""
