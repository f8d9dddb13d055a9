"""Results of two systems against each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, slots=True)
class Agreement:
    """`error` is the largest difference of an element, relative to the largest element of its array."""

    agrees: bool
    error: float | None
    reason: str = ""


def load_results(path: Path) -> list[np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return [file[name] for name in file.files]


def compare(ours: list[np.ndarray], theirs: list[np.ndarray], tolerance: float) -> Agreement:
    """Whether two systems computed the same. Arrays of one element may have any rank; results that are zero all over,
    or not finite, prove nothing and do not agree with anything."""
    if len(ours) != len(theirs):
        return Agreement(False, None, f"{len(theirs)} results instead of {len(ours)}")
    worst = 0.0
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a.size != b.size or (a.size > 1 and a.shape != b.shape):
            return Agreement(False, None, f"result {number} is {list(b.shape)} instead of {list(a.shape)}")
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return Agreement(False, None, f"result {number} is not finite")
        largest = float(np.abs(a).max(initial=0))
        if largest == 0:
            return Agreement(False, None, f"result {number} is zero all over")
        difference = a.reshape(-1).astype(np.float64) - b.reshape(-1).astype(np.float64)
        worst = max(worst, float(np.abs(difference).max(initial=0)) / largest)
    return Agreement(worst <= tolerance, worst, "" if worst <= tolerance else f"off by {worst:.1e}")
