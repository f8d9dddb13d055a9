"""Ops with regions, checks, and functions with gradients of their own (`control`, `custom`); and what all that meets
loops asks of them: how they are built (`regions`), how often they run, what one iteration hands to the next.

In: operands, and regions of the graph. Out: records of their ops, and loops for other records. Read first: `control`.
"""
