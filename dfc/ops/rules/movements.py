"""How ops that compute nothing move the elements of their first operand."""

from __future__ import annotations

from enum import Enum


class Movement(Enum):
    """What the result has of the operand. None of them takes time of its own: fusion reads through them."""

    REORDERED = "every element once, in another shape or order of axes"
    REPEATED = "every element, some of them several times along an axis"
    MIRRORED = "every element once, from the other end"
    PADDED = "every element once, among others"
    OVERLAPPING = "every element, some of them in several windows"
    SUBSET = "some of the elements"
    NUMBERED = "no operand: the numbers of places"
