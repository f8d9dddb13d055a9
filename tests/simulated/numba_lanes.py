"""Runs kernel text in numba's simulator: a thread for each lane, in whatever order they take turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")


def in_numba(function: Callable[..., None], blocks: int, threads: int, arguments: Sequence[Any]) -> None:
    """One launch."""
    with np.errstate(all="ignore"):
        cuda.jit(function)[blocks, threads](*arguments)
