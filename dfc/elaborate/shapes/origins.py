"""Where the sizes of a value come from: for messages about shapes that do not fit.

Assumes values of a graph in the making. Guarantees that what it says is so: an axis is followed only through ops that
hand it on as it is (products, element-wise ops) to a variable or a parameter, and nothing is said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context
from dfc.elaborate.state.variables import Variable
from dfc.ir.dims import ONE
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import registry
from dfc.ops.attributes import ResourceAttributes
from dfc.ops.broadcasting import same_dim
from dfc.ops.lowering.forms import Elementwise


def origins(context: Context, operands: Sequence[Value]) -> list[tuple[Span, str]]:
    """For the last pair of axes that do not fit each other: the declarations that decide their sizes."""
    notes: list[tuple[Span, str]] = []
    for value, axis in _clash(operands):
        source, source_span = _source(value, axis)
        name, span = _declaration(context, source)
        if name and not span.is_nowhere:
            size = source.tensor.shape[source_span]
            notes.append((span, f"`{size}` is {_ordinal(source_span, source.tensor.rank)} of `{name}`: {source.type}"))
    return list(dict(reversed(notes)).items())[::-1]


def remedies(context: Context, operands: Sequence[Value]) -> Iterator[str]:
    """Which variable of the program would have fitted, and which declaration would."""
    for number, value in enumerate(operands if len(operands) == 2 else ()):
        variable = _variable(context, value)
        other = operands[1 - number]
        if variable is None or value.tensor.rank > other.tensor.rank:
            continue
        expected = value.tensor.with_shape(other.tensor.shape[other.tensor.rank - value.tensor.rank :])
        fitting = _fitting(context, variable, expected)
        if fitting:
            yield f"`{fitting}` would fit: it is {expected}"
        elif all(size.constant is not None for size in expected.shape):
            yield f"`{variable.short_name}` would fit if it were declared as {expected}"


def _clash(operands: Sequence[Value]) -> list[tuple[Value, int]]:
    """The operands with the axes that do not fit; empty unless they are two."""
    if len(operands) != 2:
        return []
    first, second = operands
    for back in range(1, min(first.tensor.rank, second.tensor.rank) + 1):
        a, b = first.tensor.shape[-back], second.tensor.shape[-back]
        if not same_dim(a, b) and ONE not in (a, b):
            return [(first, first.tensor.rank - back), (second, second.tensor.rank - back)]
    return []


def _source(value: Value, axis: int) -> tuple[Value, int]:
    """The value that first had this axis."""
    while value.node is not None:
        step = _before(value.node, value, axis)
        if step is None:
            break
        value, axis = step
    return value, axis


def _before(node: Node, value: Value, axis: int) -> tuple[Value, int] | None:
    """The operand whose axis this one is."""
    if node.op == "matmul":
        return _before_product(node, value, axis)
    if isinstance(registry.record(node.op).lowering, Elementwise):
        for operand in node.operands:
            own = axis - value.tensor.rank + operand.tensor.rank
            if own >= 0 and operand.tensor.shape[own] == value.tensor.shape[axis]:
                return operand, own
    return None


def _before_product(node: Node, value: Value, axis: int) -> tuple[Value, int] | None:
    """Rows are those of the left factor, columns those of the right one; a vector has neither."""
    left, right = node.operands
    from_end = value.tensor.rank - axis
    columns = right.tensor.rank > 1
    if columns and from_end == 1:
        return right, right.tensor.rank - 1
    row = from_end - 1 if columns else from_end
    if left.tensor.rank > 1 and row == 1:
        return left, left.tensor.rank - 2
    return None


def _declaration(context: Context, value: Value) -> tuple[str, Span]:
    """The variable or parameter that a value is, and where it is declared."""
    variable = _variable(context, value)
    if variable is not None:
        return variable.name, variable.span
    if value.node is None:
        binding = context.scope.find(value.name.rsplit("/", 1)[-1])
        if binding is not None:
            return binding.name, binding.span
    return "", Span.nowhere()


def _variable(context: Context, value: Value) -> Variable | None:
    node = value.node
    if node is None or node.op != "read" or not isinstance(node.attributes, ResourceAttributes):
        return None
    return context.program.variables.get(node.attributes.resource)


def _fitting(context: Context, variable: Variable, expected: TensorType) -> str:
    """The variable of the wanted type whose name is nearest, if it is near."""
    from difflib import get_close_matches  # only a mistake needs it

    known = [v.name for v in context.program.variables.values() if v.type == expected and "." not in v.name]
    near = get_close_matches(variable.name, known, n=1)
    return near[0] if near else ""


def _ordinal(axis: int, rank: int) -> str:
    return "the length" if rank == 1 else f"axis {axis}"
