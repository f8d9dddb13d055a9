"""Which elements a shuffled queue holds, by its draws, against what such a queue means."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.dtypes import F64, I64
from dfc.ops.creation.philox import numbers
from dfc_runtime.checkpoints.shuffled import Taken
from tests.support.queue_programs import Reference, form

KEY = (3, 0x9E3779B97F4A7C15)
COUNT = 120


@pytest.mark.parametrize(("window", "take"), [(1, 1), (2, 1), (7, 3), (7, 8), (30, 2)])
@pytest.mark.parametrize("base", [0, (1 << 32) - 3])
def test_numbers_follow_from_the_draws_alone(window: int, take: int, base: int) -> None:
    """With all elements there at once, as with those that the last takes of a closed queue find."""
    reference = Reference(form([(I64, ())], COUNT, window))
    for number in range(COUNT):
        reference.put(np.int64(number))
    combined = KEY[0] ^ KEY[1]
    for call in range(COUNT // take):
        taken = Taken(combined, base, take, window, COUNT, call * take)
        assert taken.inside().tolist() == [int(number) for (number,) in reference.elements]
        reference.take(numbers("uniform", F64, (take,), KEY, draw=base + call).tolist())


def test_what_came_in_long_ago_is_found_by_looking_back_further(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(5, 0, 1, 30, 300, 260)
    expected = taken.inside().tolist()
    monkeypatch.setattr("dfc_runtime.checkpoints.shuffled._MARGIN", -3)
    assert taken.inside().tolist() == expected and min(expected) < 260 - 30
