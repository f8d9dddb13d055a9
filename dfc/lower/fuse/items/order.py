"""The order of what happens in a block, as one integer each: the position of a node, and turns at that position.

    at(3, FIRST + 1) < at(3, -2) < at(3) < at(3, 9) < at(3, LAST) < at(4, FIRST)

Assumes fewer than 2 ** 30 turns to each side of a position.
"""

from __future__ import annotations

TURNS = 1 << 32
FIRST = -(1 << 30)
"""What was taken over from an outer block comes before everything else at a position."""
LAST = 1 << 20
"""Behind everything that happens at a position."""
STEP = 9
"""A step comes behind the stores of what it begins with."""


def at(position: int, turn: int = 0) -> int:
    return position * TURNS + turn


def position_of(order: int) -> int:
    """The position of the node that something belongs to; -1 for what is there before the first one."""
    return (order + TURNS // 2) // TURNS
