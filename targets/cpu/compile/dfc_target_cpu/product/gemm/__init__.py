"""The matrix product of two factors in memory: blocks, panels, tiles, and forms for few rows or few columns.

In: the machine and an element type. Out: the text of LLVM functions, as an object that programs are linked with.
Read first: `library`, then `general` (any strides) and `shape` (sizes of blocks and tiles).
"""
