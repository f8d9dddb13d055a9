"""Row sparsity through element-wise ops: dense factors at the rows of a term, and functions that are zero at zero.

Linear functions keep the rows apart; functions that are only zero at zero see each row of the target once, so rows
with the same number are added up before.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import registry
from dfc.ops.builder import Builder
from dfc.ops.constants import uniform_of
from dfc.ops.lowering.views import Movement, movement_of
from dfc.ops.rules.lookup import is_elementwise, rules_of
from dfc.ops.rules.row_sparsity import Known, Sparse, Term, combined, each_term, is_along, part
from dfc.ops.rules.signs import Sign

MAX_PART = 64
"""Nodes of a dense expression that are computed again for the rows of a term."""

DEPTH = 9
"""How many nodes are looked through for the sign of a value."""
CONSTANT_SIGNS = {
    (True, False): Sign.POSITIVE | Sign.NEVER_ZERO | Sign.NOT_NEGATIVE,
    (False, True): Sign.UNKNOWN,
    (False, False): Sign.NEVER_ZERO,
}
"""By whether a number is above zero, and whether it is zero."""


def rows_of(b: Builder, node: Node, known: Known) -> Sparse | None:
    """What is known of the result of a node: by the rule of its record, or because it is zero at zero."""
    rule = rules_of(node).row_sparsity
    sparse = rule(b, node, known) if rule is not None else None
    return sparse if sparse is not None or not is_elementwise(node) else zero_at_zero(b, node, known)


# ----------------------------------------------------------- zero at zero --


def zero_at_zero(b: Builder, node: Node, known: Known) -> Sparse | None:
    """An element-wise function that is zero where its one sparse operand is."""
    known = [None if each is None or each.base is not None else each for each in known]
    sparse = {id(each): each for each in known if each is not None}
    if not sparse:
        return None
    (x, *others) = sparse.values()
    shape = node.result.tensor.shape
    if others:
        return None
    if any(v.tensor.shape != shape for v, each in zip(node.operands, known, strict=True) if each is not None):
        return None
    if not _is_zero_at_zero(node, known):
        return None
    once = combined(b, x, shape)

    def applied(term: Term) -> Value:
        operands = [v if each is None else term.rows for v, each in zip(node.operands, known, strict=True)]
        return b.apply(node.op, *operands, attributes=node.attributes)

    return None if once is None else each_term(once, applied)


def _is_zero_at_zero(node: Node, known: Known) -> bool:
    """Computes it: other operands must be single numbers that are known."""
    numbers: list[np.ndarray] = []
    for value, each in zip(node.operands, known, strict=True):
        number = np.zeros((), value.tensor.machine.numpy) if each is not None else uniform_of(value)
        if number is None or (each is None and value.tensor.rank):
            return False
        numbers.append(number)
    (result,) = registry.record(node.op).evaluate(numbers, node.attributes, {})
    return result.dtype.kind in "fV" and bool(result.astype(np.float64) == 0)


# ---------------------------------------------------------- dense factors --


def scaled(b: Builder, node: Node, x: Sparse, factor: Value, position: int, *, divides: bool = False) -> Sparse | None:
    """A sparse value, at this position, times or by a dense factor, which is zero nowhere else if it divides."""
    if node.operands[position].tensor.shape != node.result.tensor.shape:
        return None

    def at_term(term: Term) -> Value | None:
        if divides and is_along(factor.tensor, term) and Sign.NEVER_ZERO not in sign_of(factor):
            return None
        here = restricted(b, factor, term)
        if here is None:
            return None
        return b.apply(node.op, *((here, term.rows) if position else (term.rows, here)))

    return each_term(x, at_term)


def restricted(b: Builder, factor: Value, term: Term) -> Value | None:
    """A dense factor at the rows that a term selects. Element-wise expressions are computed for these rows only."""
    here: dict[Value, Value] = {}
    pending = [factor]
    while pending:
        value = pending[-1]
        node = value.node
        if value in here:
            pending.pop()
        elif node is None or not is_along(value.tensor, term) or not _is_pointwise(node):
            here[value] = part(b, value, term)
        elif missing := [v for v in node.operands if v not in here]:
            pending += missing
        else:
            here[value] = _at(b, node, here)
        if len(here) + len(pending) > MAX_PART:
            return None
    return here[factor]


def _is_pointwise(node: Node) -> bool:
    return is_elementwise(node) or movement_of(node) is Movement.REPEATED


def _at(b: Builder, node: Node, here: Mapping[Value, Value]) -> Value:
    """What stretches to the shape of the rows need not be broadcast before."""
    operands = [here[v] for v in node.operands]
    return (
        operands[0]
        if movement_of(node) is Movement.REPEATED
        else b.apply(node.op, *operands, attributes=node.attributes)
    )


def sign_of(value: Value, depth: int = DEPTH) -> Sign:
    """What is certain of all elements of a value."""
    number = uniform_of(value)
    if number is not None:
        x = float(number.astype(np.float64))
        return CONSTANT_SIGNS[x > 0, x == 0]
    rule = rules_of(value.node).sign if value.node is not None and depth else None
    if rule is None or value.node is None or not isinstance(value.type, TensorType):
        return Sign.UNKNOWN
    return rule([sign_of(operand, depth - 1) for operand in value.node.operands])
