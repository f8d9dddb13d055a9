"""What is done with the blocks of a value, and by whom."""

from __future__ import annotations

import numpy as np

from dfc_runtime.dataclasses import dataclass

CONCAT = "concat"
ADDITIONS: dict[str, np.ufunc] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
"""What makes one operand of two in the tree. Names of functions and variables speak of sums and mean any of these."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done, again and again. `tags` are for roots and for sums of chunks; `number` spreads what is small over
    the tasks. `combination` is one of `ADDITIONS`, or `CONCAT`."""

    blocks: int
    tags: tuple[int, int]
    number: int = 0
    combination: str = "sum"


@dataclass(frozen=True, slots=True)
class Group:
    """The tasks that work together: the rank of each, and which one this is."""

    ranks: tuple[int, ...]
    task: int
