"""Groups become kernels over storage.

In: groups whose values have memory. Out: kernels, and effects that stand alone. Read first: `loops` (element-wise work
and reductions), then `products`, `ordered`, `effects`; `expressions` makes the bodies of all of them.
"""
