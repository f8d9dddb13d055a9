"""In which order kernels combine values: what makes the bits of sums the same on every machine.

In: a kernel. Out: the tree of its reduction, or the segments of its scan; for products, the words of what machines may
choose. Read first: `reduction`, then `scan` and `product`.
"""
