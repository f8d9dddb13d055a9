"""Convolutions of 3 x 3 windows by Winograd's minimal filtering: fewer multiplications, on transformed tiles.

`transforms` has the matrices of the algorithm and what rounding does in it, `tiling` chooses it by predicted cost and
cuts a contraction into blocks of tiles for a machine of given registers and caches. Both are data for a target to write
loops from. Read `transforms` first.

In: a contraction and a machine's registers and caches. Out: numbers.
"""
