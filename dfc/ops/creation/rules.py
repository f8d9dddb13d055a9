"""What passes have to know of values that come from no operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.ir.graph import Node, Value
from dfc.ops.attributes import ConstantAttributes, DimAttributes
from dfc.ops.builder import Builder
from dfc.ops.constants import is_zero
from dfc.ops.creation.random_rows import random_rows
from dfc.ops.rules.costs import free
from dfc.ops.rules.degrees import ANY, FLAT, MaybeDegree, Sizes, fixed, more
from dfc.ops.rules.op_rules import DEFAULTS
from dfc.ops.rules.sharding import COMMON, ZEROS, Partitioning, Split, State
from dfc.ops.rules.use import POINTWISE, Use, one


def _constant(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    del states, cutting
    assert isinstance(node.attributes, ConstantAttributes)
    return one((), ZEROS if is_zero(node.attributes.value) else COMMON)


def _iota(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    can_start = cutting.can_start(node, node.result.tensor.shape[0])
    return one(states, Split(0) if can_start else COMMON)


# ---------------------------------------------------------------- degrees --


def _size_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    del degrees
    assert isinstance(node.attributes, DimAttributes)
    return more(FLAT, sizes.power(node.attributes.size))


def _constant_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    del degrees, sizes
    assert isinstance(node.attributes, ConstantAttributes)
    return ANY if is_zero(node.attributes.value) else FLAT


def _count_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """Numbers from 0 on."""
    del degrees
    shape = node.result.tensor.shape
    return more(FLAT, sizes.power(shape[0])) if len(shape) == 1 else None


# ---------------------------------------------------------------- rows by number --


def _numbers_at(output: Builder, node: Node, rows: Value, axis: int) -> Value:
    """A number is that of its position."""
    del axis
    return output.cast(rows, node.result.tensor.dtype)


CONSTANT = replace(DEFAULTS, sharding=_constant, degree=_constant_degree, cost=free, keeps_finite=True, weight=0)
IOTA = replace(
    DEFAULTS,
    sharding=_iota,
    degree=_count_degree,
    cost=free,
    rows_at=_numbers_at,
    keeps_finite=True,
    weight=0,
)
DIM = replace(DEFAULTS, degree=_size_degree, cost=free, keeps_finite=True, weight=0)
RANGE = replace(DEFAULTS, may_fail=True, degree=_count_degree)
RANDOM = replace(DEFAULTS, degree=fixed, rows_at=random_rows, weight=16)
RANDOM_AT = replace(DEFAULTS, sharding=POINTWISE, degree=fixed)
