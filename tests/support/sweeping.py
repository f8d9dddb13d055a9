"""Matrices of cases that are too many for every change: a few of them in `make test`, all of them in `make gate`.

@pytest.mark.parametrize("seed", few(range(30), 4))    # 4 of them; with DFC_SWEEP=1 in the environment all 30
@settings(max_examples=examples(60))                   # 20 of them; those that say nothing 33 of 100

`python -m tests.gate.sweeps` runs the files that import this module, whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")

WHOLE = os.environ.get("DFC_SWEEP", "") not in ("", "0")
"""Whether all cases are wanted."""


THIRD = 1 if WHOLE else 3
"""Of examples that hypothesis makes up, `make test` tries one in three."""


def examples(count: int) -> int:
    """How many of as many examples a test of hypothesis tries."""
    return count // THIRD


def few(cases: Iterable[Case], count: int) -> list[Case]:
    """`count` of these cases, evenly spread and the same each time, the first among them; all where all are wanted."""
    everything = list(cases)
    if WHOLE or count >= len(everything):
        return everything
    return [everything[number * len(everything) // count] for number in range(count)]
