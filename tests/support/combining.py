"""What the tasks of a job are to make together, computed in one place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def sequential(blocks: Sequence[np.ndarray], scale: float = 1.0, add: np.ufunc = np.add) -> np.ndarray:
    """The definition: the tree of sums, one addition after the other, in one place."""
    values = [each.copy() for each in blocks]
    open_: list[tuple[tuple[int, int], bool]] = [((0, len(values)), False)]
    while open_:
        node, parts_done = open_.pop()
        if node[1] - node[0] == 1:
            continue
        middle = node[0] + max(p for p in (1 << i for i in range(20)) if p < node[1] - node[0])
        if parts_done:
            values[node[0]] = add(values[node[0]], values[middle])
        else:
            open_ += [(node, True), ((middle, node[1]), False), ((node[0], middle), False)]
    total = values[0]
    return total if scale == 1.0 else total * total.dtype.type(scale)
