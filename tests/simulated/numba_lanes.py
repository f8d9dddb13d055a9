"""Runs kernel text in numba's simulator: a thread for each lane, in whatever order they take turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.cuda_simulator.lane_threads import at_once, numba_lane
from tests.support.cuda_simulator.simulation import launched, meets

cuda = pytest.importorskip("numba.cuda")


def in_numba(function: Callable[..., None], blocks: int, threads: int, arguments: Sequence[Any]) -> None:
    """One launch."""
    with launched(numba_lane):
        cuda.jit(at_once(function) if meets(function) else function)[blocks, threads](*arguments)
