"""Large results of calls: their memory is used again, and never while somebody sees it."""

from __future__ import annotations

import numpy as np

import dfc_runtime
from tests.support.natives import program


def test_large_results_of_two_calls_do_not_share_memory() -> None:
    model = dfc_runtime.loads(program().to_bytes())
    x = np.ones((1 << 17, 4), "f4")
    first, second = model.scale(x, 1).y, model.scale(x, 2).y
    assert (first == 1).all() and (second == 2).all()
    row = first[3]
    del first
    assert (model.scale(x, 3).y == 3).all()
    assert (row == 1).all()
