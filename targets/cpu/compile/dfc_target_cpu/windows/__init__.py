"""Direct convolutions: native loops for the cuts of `dfc.kernels.direct`, the same code for all sizes.

`kernels` has the register tiles and rows of them, `bands` and `filters` the copies, `forward` and `summing` the loops
of the two kinds of sums, `launch` what is written for each kernel. Read `launch` first.

In: plans of `dfc.kernels.direct` and `dfc.kernels.winograd`. Out: LLVM functions.
"""
