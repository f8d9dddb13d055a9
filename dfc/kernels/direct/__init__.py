"""Direct convolutions: contractions with windows as loops over bands of an image, without blocks of windows.

`geometry` reads from a contraction where its windows lie, as plain numbers; `blocking` cuts that into bands, panels and
chunks for a machine of given registers and caches. Both are data for a target to write loops from: kernels in,
numbers out, no machine code. Read `geometry` first.
"""
