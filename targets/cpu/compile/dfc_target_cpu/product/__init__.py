"""Matrix products and contractions: micro-kernels, packing, epilogues. Read first: `gemm`, then `contraction`."""
