"""Which ops keep a tensor sparse: the rules of `sparse`, by op, for what gradients and optimisers are made of.

A rule gets a node whose operands are partly known as `Sparse` and returns what is known of its result, or None: dense.
Linear functions keep the rows apart; functions that are only zero at zero see each place once, so rows with the same
number are added up before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import registry
from dfc.ops.attributes import CastAttributes, PadAttributes, PermutationAttributes, ScatterAttributes
from dfc.ops.builder import Builder
from dfc.ops.constants import uniform_of
from dfc.ops.record import Elementwise
from dfc.transforms.sparse.rows import (
    NOTHING,
    Sparse,
    Term,
    combined,
    each_term,
    is_along,
    padded,
    part,
    scattered,
    total,
    transposed,
)

Known = Sequence["Sparse | None"]
MAX_PART = 64
"""Nodes of a dense expression that are computed again for the rows of a term."""
_NOT_NEGATIVE = frozenset(("sqrt", "square", "abs", "exp", "sigmoid", "relu"))


def derive(b: Builder, node: Node, known: Known) -> Sparse | None:
    """What is known of the result of a node."""
    if node.op in _SOURCES:
        return _SOURCES[node.op](node, known)
    if node.op not in ("add", "sub"):
        known = [None if each is None or each.base is not None else each for each in known]
    if all(each is None for each in known):
        return None
    found = _RULES[node.op](b, node, known) if node.op in _RULES else None
    return found if found is not None else _zero_at_zero(b, node, known)


# ---------------------------------------------------------------- sources --


def _scatter(node: Node, _known: Known) -> Sparse:
    assert isinstance(node.attributes, ScatterAttributes)
    ids, rows = node.operands
    return scattered(ids, rows, node.attributes)


def _pad(node: Node, known: Known) -> Sparse | None:
    assert isinstance(node.attributes, PadAttributes)
    x, fill = node.operands
    number = uniform_of(fill)
    if number is None or number.astype(np.float64) != 0:
        return None
    return padded(x, known[0], node.attributes)


def _read(node: Node, _known: Known) -> Sparse:
    return Sparse((), node.result)


def _broadcast(node: Node, _known: Known) -> Sparse | None:
    number = uniform_of(node.operands[0])
    is_zero = number is not None and number.dtype.kind in "fV" and number.astype(np.float64) == 0
    return NOTHING if is_zero else None


_SOURCES: dict[str, Callable[[Node, Known], Sparse | None]] = {
    "scatter_add": _scatter,
    "pad": _pad,
    "read": _read,
    "broadcast": _broadcast,
}


# ----------------------------------------------------------------- linear --


def _unary(b: Builder, node: Node, known: Known) -> Sparse | None:
    (x,) = known
    assert x is not None
    return each_term(x, lambda term: b.apply(node.op, term.rows, attributes=node.attributes))


def _cast(b: Builder, node: Node, known: Known) -> Sparse | None:
    """To a wider type row by row; to a narrower one only once for each place."""
    assert isinstance(node.attributes, CastAttributes)
    source, target = node.operands[0].tensor.machine, node.result.tensor.machine
    is_wider = source.is_float and target.is_float and target.size > source.size
    return _unary(b, node, known) if is_wider else None


def _transpose(b: Builder, node: Node, known: Known) -> Sparse | None:
    (x,) = known
    assert isinstance(node.attributes, PermutationAttributes) and x is not None
    return transposed(b, x, node.attributes.permutation)


def _sum(b: Builder, node: Node, known: Known) -> Sparse | None:
    x, y = known
    shapes = {v.tensor.shape for v in (*node.operands, node.result)}
    return None if x is None or y is None or len(shapes) > 1 else total(b, x, y, node.op)


def _product(b: Builder, node: Node, known: Known) -> Sparse | None:
    """A sparse value times or by one that is not."""
    x, y = known
    if x is not None and y is None:
        return _scaled(b, node, x, node.operands[1], 0)
    if x is None and y is not None and node.op == "mul":
        return _scaled(b, node, y, node.operands[0], 1)
    return None


def _scaled(b: Builder, node: Node, x: Sparse, factor: Value, position: int) -> Sparse | None:
    if node.operands[position].tensor.shape != node.result.tensor.shape:
        return None

    def scaled(term: Term) -> Value | None:
        if node.op == "div" and is_along(factor.tensor, term) and not never_zero(factor):
            return None
        here = restricted(b, factor, term)
        if here is None:
            return None
        return b.apply(node.op, *((here, term.rows) if position else (term.rows, here)))

    return each_term(x, scaled)


_RULES: dict[str, Callable[[Builder, Node, Known], Sparse | None]] = {
    "neg": _unary,
    "stop_gradient": _unary,
    "cast": _cast,
    "transpose": _transpose,
    "add": _sum,
    "sub": _sum,
    "mul": _product,
    "div": _product,
}


# ----------------------------------------------------------- zero at zero --


def _zero_at_zero(b: Builder, node: Node, known: Known) -> Sparse | None:
    """An element-wise function that is zero where its one sparse operand is."""
    found = {id(each): each for each in known if each is not None}
    (x, *others) = found.values()
    shape = node.result.tensor.shape
    if others or x.base is not None or not isinstance(registry.record(node.op).lowering, Elementwise):
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


def restricted(b: Builder, factor: Value, term: Term) -> Value | None:
    """A dense factor at the places of a term. Element-wise expressions are computed for these places only."""
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
    return node.op == "broadcast" or isinstance(registry.record(node.op).lowering, Elementwise)


def _at(b: Builder, node: Node, here: Mapping[Value, Value]) -> Value:
    """What stretches to the shape of the rows need not be broadcast before."""
    operands = [here[v] for v in node.operands]
    return operands[0] if node.op == "broadcast" else b.apply(node.op, *operands, attributes=node.attributes)


def never_zero(value: Value, depth: int = 8) -> bool:
    """Whether no element is zero: a positive number was added to what is not negative."""
    node = value.node
    number = uniform_of(value)
    if number is not None:
        return bool(number.astype(np.float64) != 0)
    if node is None or depth == 0 or not isinstance(value.type, TensorType):
        return False
    if node.op in ("broadcast", "reshape"):
        return never_zero(node.operands[0], depth - 1)
    if node.op not in ("add", "maximum"):
        return False
    x, y = node.operands
    return any(
        _is_positive(one) and (node.op == "maximum" or _is_not_negative(other, depth))
        for one, other in ((x, y), (y, x))
    )


def _is_positive(value: Value) -> bool:
    number = uniform_of(value)
    return number is not None and bool(number.astype(np.float64) > 0)


def _is_not_negative(value: Value, depth: int) -> bool:
    node = value.node
    if _is_positive(value):
        return True
    if node is None or depth == 0:
        return False
    if node.op in ("broadcast", "reshape", "slice", "gather"):
        return _is_not_negative(node.operands[0], depth - 1)
    if node.op in ("add", "mul"):
        return all(_is_not_negative(v, depth - 1) for v in node.operands)
    return node.op in _NOT_NEGATIVE
