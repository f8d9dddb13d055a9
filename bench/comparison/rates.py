"""How often a step runs in a second, measured the same way for every peer. Needs the standard library alone."""

from __future__ import annotations

import time
from collections.abc import Callable

WARM_UP, REPEATS, STEPS = 20, 150, 5


def best_rate(step: Callable[[], object]) -> float:
    """The best number of steps a second, over `REPEATS` runs of `STEPS` after a warm-up."""
    for _ in range(WARM_UP):
        step()
    rates: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        rates.append(STEPS / (time.perf_counter() - start))
    return max(rates)
