"""Which tests belong together, in which order, and how workers come by them.

A unit is the tests of one module, which share its fixtures. The numbers of all units wait in two pipes, from which
whichever worker is free reads the next: the kernel hands each number out once, without a lock or a word to anybody.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pytest

NUMBER = struct.Struct("=I")
CAPACITY = 1 << 16
"""Bytes that a pipe is made to hold: all numbers are written before anybody reads."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Tests `start` to `stop`, without the latter, of all that were collected."""

    start: int
    stop: int


def units_of(items: Sequence[pytest.Item]) -> list[Unit]:
    """The tests of each module, in the order in which they were collected."""
    result: list[Unit] = []
    for _, numbers in groupby(range(len(items)), lambda number: items[number].path):
        unit = list(numbers)
        result.append(Unit(unit[0], unit[-1] + 1))
    return result


class Queue:
    """Numbers that each reader takes in turn; all are there from the beginning."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._source, sink = os.pipe()
        try:
            fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, CAPACITY)
            if len(numbers) * NUMBER.size > CAPACITY:
                raise ValueError(f"{len(numbers)} modules of tests; a pipe holds {CAPACITY // NUMBER.size}")
            for number in numbers:
                os.write(sink, NUMBER.pack(number))
        finally:
            os.close(sink)

    def __iter__(self) -> Iterator[int]:
        while record := os.read(self._source, NUMBER.size):
            yield int(NUMBER.unpack(record)[0])

    def close(self) -> None:
        os.close(self._source)
