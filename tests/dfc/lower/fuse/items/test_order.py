"""Orders are integers that sort by position first, then by turn."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dfc.lower.fuse.items.order import FIRST, LAST, STEP, at, position_of


def test_turns_at_a_position_come_before_the_next_position() -> None:
    orders = [at(position, turn) for position in (-1, 0, 1, 7) for turn in (FIRST, FIRST + 1, -2, 0, 1, STEP, LAST)]
    assert all(before < after for before, after in pairwise(orders))


@pytest.mark.parametrize("position", [-1, 0, 1, 30_000])
@pytest.mark.parametrize("turn", [FIRST, -1, 0, STEP, LAST, LAST + 1])
def test_every_turn_belongs_to_its_position(position: int, turn: int) -> None:
    assert position_of(at(position, turn)) == position
