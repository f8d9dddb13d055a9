"""Bands: columns that the rows of a row-block kernel do not need, because a mask makes them count for nothing.

In: a `RowBlockKernel`. Out: the same over the columns in front of a border that moves with the rows, and what to check
of each row for that. Read first: `band`; `comparisons` finds the borders that masks have, `beyond` says what values are
beyond one.
"""
