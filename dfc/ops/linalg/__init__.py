"""Products of matrices, and what is solved and factored with them.

In: matrices, and stacks of them. Out: records of the ops. Read first: `products`, then `factoring`.
"""
