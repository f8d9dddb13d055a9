"""Numbers written in decimal digits, many at once: what cells of tables hold.

A whole number is digits behind a sign or none; another one may have a point and an exponent, or is inf or nan; blanks
around it are no part of it. Guarantees that each is the number that Python reads, rounded once to f64 (and from there
to f32), and that one which is none, or none of the wanted type, is said to be so.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.records.framing import Numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

WHOLE = re.compile(rb"[ \t]*[+-]?\d{1,19}[ \t]*")
NUMBER = re.compile(rb"[ \t]*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|nan)[ \t]*", re.IGNORECASE)
CHUNK = 1 << 14
"""Cells that are read at once, so that what is computed on the way stays in a cache."""
MOST_DIGITS = 15
"""Whole numbers of so many digits are exact as f64, and so are these powers of ten: a quotient is rounded once."""
_POWERS = 10.0 ** np.arange(MOST_DIGITS + 1)


def numbers_of(
    data: NDArray[np.uint8], begins: Numbers, ends: Numbers, dtype: np.dtype[np.generic]
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """The numbers that are written in these ranges, and which of them are numbers of that type, which is not u64."""
    numbers, valid = np.empty(len(begins), dtype), np.empty(len(begins), np.bool_)
    for begin in range(0, len(begins), CHUNK):
        part = slice(begin, begin + CHUNK)
        numbers[part], valid[part] = _some_numbers(data, begins[part], ends[part], dtype)
    return numbers, valid


def _some_numbers(
    data: NDArray[np.uint8], begins: Numbers, ends: Numbers, dtype: np.dtype[np.generic]
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    low = int(begins.min())
    data, begins, ends = data[low : int(ends.max()) + 1], begins - low, ends - low
    if dtype.kind == "f":
        values, is_plain = _plain_fractions(data, begins, ends)
        others = np.flatnonzero(~is_plain)
        valid = np.ones(len(begins), np.bool_)
        for cell in others.tolist():
            text = data[begins[cell] : ends[cell]].tobytes()
            number = float(text) if NUMBER.fullmatch(text) is not None else None
            valid[cell] = number is not None and (not math.isinf(number) or b"n" in text.lower())
            values[cell] = number if valid[cell] else 0
        with np.errstate(over="ignore"):
            rounded = values.astype(dtype)
        return rounded, valid & (np.isfinite(rounded) | ~np.isfinite(values))
    values, is_plain = _plain_whole(data, begins, ends)
    others = np.flatnonzero(~is_plain)
    bits = 8 * dtype.itemsize
    least, most = (0, (1 << bits) - 1) if dtype.kind == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    valid = (values >= least) & (values <= most)
    for cell in others.tolist():
        text = data[begins[cell] : ends[cell]].tobytes()
        number = int(text) if WHOLE.fullmatch(text) else most + 1
        valid[cell] = least <= number <= most
        values[cell] = number if valid[cell] else 0
    return values.astype(dtype), valid


@dataclass(slots=True)
class _Digits:
    """What was read of each cell: the digits as one whole number, how many they are, how many of them behind a point,
    and what there is beside digits."""

    values: NDArray[np.int64] | NDArray[np.int32]
    digits: NDArray[np.int8]
    fractions: NDArray[np.int8]
    has_point: NDArray[np.bool_]
    is_other: NDArray[np.bool_]
    is_negative: NDArray[np.bool_]

    @property
    def is_plain(self) -> NDArray[np.bool_]:
        return ~self.is_other & (self.digits > 0) & (self.digits <= MOST_DIGITS)


def _plain_whole(
    data: NDArray[np.uint8], begins: Numbers, ends: Numbers
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Whole numbers of at most `MOST_DIGITS` digits without blanks, and which ones are of this kind."""
    read = _digits(data, begins, ends)
    values = read.values.astype(np.int64, copy=False)
    return np.where(read.is_negative, -values, values), read.is_plain & ~read.has_point


def _plain_fractions(
    data: NDArray[np.uint8], begins: Numbers, ends: Numbers
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The same, with a point in them or not; without an exponent."""
    read = _digits(data, begins, ends)
    values = read.values / _POWERS[np.minimum(read.fractions, MOST_DIGITS)]
    return np.where(read.is_negative, -values, values), read.is_plain


def _digits(data: NDArray[np.uint8], begins: Numbers, ends: Numbers) -> _Digits:
    """Goes along all cells at once, a character each."""
    count, last = len(begins), max(len(data) - 1, 0)
    first = data[np.minimum(begins, last)] if len(data) else np.zeros(count, np.uint8)
    has_more = ends > begins
    is_negative: NDArray[np.bool_] = (first == ord("-")) & has_more
    at = begins + (is_negative | ((first == ord("+")) & has_more))
    longest = min(int((ends - at).max(initial=0)), MOST_DIGITS + 1)
    none = np.zeros(count, np.bool_)
    values = np.zeros(count, np.int32) if longest <= 9 else np.zeros(count, np.int64)
    read = _Digits(values, np.zeros(count, np.int8), np.zeros(count, np.int8), none, ends - at > longest, is_negative)
    for _ in range(longest):
        inside = at < ends
        characters: NDArray[np.uint8] = data[np.minimum(at, last)]
        digit = characters - np.uint8(ord("0"))
        is_digit = (digit < 10) & inside
        values = np.where(is_digit, values * values.dtype.type(10) + digit, values)
        read.digits += is_digit
        read.fractions += is_digit & read.has_point
        others: NDArray[np.bool_] = inside & ~is_digit
        if others.any():
            is_point = others & (characters == ord(".")) & ~read.has_point
            read.is_other |= others & ~is_point
            read.has_point = read.has_point | is_point
        at = at + 1
    read.values = values
    return read
