"""Kernels that go along the same rows become one kernel over blocks of rows, so that what they hand to each other needs
memory for one block.

Before: scores = q @ k, p = softmax(scores), y = p @ v, each a kernel, with scores and p of N x N in memory.
After: one kernel; scores and p are panels of some rows.

In: the kernels of an entry. Out: the same with some of them joined. Read first: `row_blocks`; `chains` finds the
kernels, `phases` cuts them into what one kernel can hold, `joining` makes it and says what is gained.
"""
