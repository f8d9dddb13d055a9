"""Rules of short batches: how an op that puts rows together leaves out rows that do not count.

A batch that is short is filled up with copies of its last row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.graph import Node, Value

if TYPE_CHECKING:
    from dfc.ops.builder import Builder

Divided = Callable[["Builder", Node, Value, Callable[[Dim], Value]], Value]
"""The result of a node for an operand in which rows that do not count are neutral; of sizes of the filled batch the
function gives those of the short one."""


@dataclass(frozen=True, slots=True)
class Filling:
    """`neutral` is the number that takes the place of rows that do not count, in these `operands` (None: in all);
    without one, copies of a row change nothing. `divided` is for a result that the number of rows has a part in."""

    neutral: int | None = None
    operands: tuple[int, ...] | None = None
    divided: Divided | None = None


COPIES = Filling()
ADDED = Filling(0)
MULTIPLIED = Filling(1)
