"""Schedule: kernels and nodes of a block become structured steps, under the locks they need.

In: what `dfc.lower.fuse` makes. Out: unallocated steps over buffer views (`unallocated`). Read first: `schedule`, then
`locks`.
"""
