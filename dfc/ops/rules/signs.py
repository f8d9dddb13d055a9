"""Rules of signs: what is certain of every element of a value, by which divisions keep zeros zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Flag, auto


class Sign(Flag):
    """`POSITIVE` is known of constants alone: what is computed may be rounded to 0."""

    UNKNOWN = 0
    NOT_NEGATIVE = auto()
    NEVER_ZERO = auto()
    POSITIVE = auto()


SignRule = Callable[[Sequence[Sign]], Sign]
"""The sign of the result, from those of the operands."""


def not_negative(signs: Sequence[Sign]) -> Sign:
    """Whatever the operands are."""
    del signs
    return Sign.NOT_NEGATIVE


def any_sign(signs: Sequence[Sign]) -> Sign:
    """The safe default."""
    del signs
    return Sign.UNKNOWN


def of_some(signs: Sequence[Sign]) -> Sign:
    """For some elements of the first operand."""
    return signs[0] & Sign.NOT_NEGATIVE


def of_all(signs: Sequence[Sign]) -> Sign:
    """For all elements of the first operand and no others."""
    return signs[0] & (Sign.NOT_NEGATIVE | Sign.NEVER_ZERO)


def of_product(signs: Sequence[Sign]) -> Sign:
    return Sign.NOT_NEGATIVE if all(Sign.NOT_NEGATIVE in sign for sign in signs) else Sign.UNKNOWN


def of_sum(signs: Sequence[Sign]) -> Sign:
    """A positive number is added to what is not negative."""
    if not all(Sign.NOT_NEGATIVE in sign for sign in signs):
        return Sign.UNKNOWN
    has_positive = any(Sign.POSITIVE in sign for sign in signs)
    return Sign.NOT_NEGATIVE | Sign.NEVER_ZERO if has_positive else Sign.NOT_NEGATIVE


def of_largest(signs: Sequence[Sign]) -> Sign:
    return Sign.NEVER_ZERO if any(Sign.POSITIVE in sign for sign in signs) else Sign.UNKNOWN
