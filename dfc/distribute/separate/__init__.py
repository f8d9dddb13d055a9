"""separate: tells apart, in an entry, what gradients are taken at from what is updated.

In: the graph as it was elaborated, where a gradient still is one node. Out: a graph in which the way to a loss reads
other state than the update changes, for modes in which these two are not of the same step. Read first: `cone`, what
belongs to the way; then `staged` (copies of variables, late or not) and `apart` (an entry for each of the two).
"""

from dfc.distribute.separate.apart import take_apart, together
from dfc.distribute.separate.splitting import split_axes
from dfc.distribute.separate.staged import mirror_variables, stage_variables, staged_name
from dfc.distribute.separate.taken import splits_queues

__all__ = [
    "mirror_variables",
    "split_axes",
    "splits_queues",
    "stage_variables",
    "staged_name",
    "take_apart",
    "together",
]
