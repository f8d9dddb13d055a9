"""Rules of values that are made of no operand, each element of which follows from its position."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dfc.ir.graph import Node, Value

if TYPE_CHECKING:
    from dfc.ops.builder import Builder

RowsAt = Callable[["Builder", Node, Value, int], Value]
"""The rows with these numbers (i64) along an axis of what a node makes, with the bits that they have in the whole."""
