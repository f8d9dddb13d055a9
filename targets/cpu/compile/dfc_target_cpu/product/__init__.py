"""Matrix products and contractions: micro-kernels, packing, epilogues. Read first: `gemm`, then `contraction`.

In: contractions. Out: LLVM functions that share their work among threads.
"""
