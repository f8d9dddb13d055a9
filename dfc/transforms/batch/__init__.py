"""What the values of an entry have to do with a batch: an analysis, for whoever cuts a batch or puts results together.

In: an entry after `expand`, and the size that is that of the batch. Out: what one block of the batch has of each value
(`analysis`, by the rules of each op), how each value grows with the batch (`degrees`), which results are means or sums
over it (`over_batch`); `draws` makes random numbers a function of the position in the whole batch first. Nothing here
knows of tasks or ranks. Read first: `analysis`.
"""
