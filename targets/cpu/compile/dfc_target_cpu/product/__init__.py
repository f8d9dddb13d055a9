"""Matrix products and contractions: packing, epilogues, blocks of rows. Read first: `contraction`, then `gemm.general`.

In: contractions. Out: LLVM functions that share their work among threads.
"""
