"""How often a `for` runs, when its bounds are sizes: one answer for the front end and for passes."""

from __future__ import annotations

from dfc.ir.attributes import Literal
from dfc.ir.dims import Dim, dim, maximum
from dfc.ir.facts import Facts
from dfc.ir.graph import Value
from dfc.ops.attributes import ConstantAttributes, DimAttributes

NO_FACTS = Facts()


def size_of(value: Value) -> Dim | None:
    """The dimension an integer scalar stands for: the result of a `dim` node or an integer constant."""
    node = value.node
    if node is None:
        return None
    if isinstance(node.attributes, DimAttributes):
        return node.attributes.size
    return _whole(node.attributes.value) if isinstance(node.attributes, ConstantAttributes) else None


def _whole(literal: Literal) -> Dim | None:
    array = literal.array
    return dim(int(array)) if not array.shape and array.dtype.kind in "iu" else None


def trip_count(first: Dim, last: Dim, facts: Facts = NO_FACTS) -> Dim:
    """The number of iterations from `first` to below `last`: none if that is negative."""
    count = facts.canonical(last - first)
    return count if facts.holds(count, ">=", 0) is True else maximum(count, dim(0))
