"""What is known of values that a constant makes."""

from __future__ import annotations

import numpy as np

from dfc.ir.attributes import Literal
from dfc.ir.graph import Value
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.record import Array

REPEATS = frozenset({"broadcast", "reshape"})
"""Ops whose result has no other elements than their operand."""


def constant_of(value: Value) -> Array | None:
    """The array of a value that a `constant` node makes."""
    node = value.node
    if node is None or not isinstance(node.attributes, ConstantAttributes):
        return None
    return node.attributes.value.array


def uniform_of(value: Value) -> Array | None:
    """The one number that all elements of a constant (or of a broadcast or reshape of one) are, as a 0-d array."""
    while value.node is not None and value.node.op in REPEATS:
        value = value.node.operands[0]
    array = constant_of(value)
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[:1]
    same = array.tobytes() == first.tobytes() * array.size
    return np.asarray(first[0]) if same else None


def is_zero(literal: Literal) -> bool:
    """Whether all elements are the number 0, of whatever sign."""
    array = literal.array
    return array.dtype.kind in "fiu" and array.size > 0 and not array.any()
