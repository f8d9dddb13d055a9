"""Which nodes have the same bits wherever they are computed, so that the compiler may compute them itself.

Elementary functions are expansions on each target, rounded as its instructions allow; sums and products of floats are
taken in the order of a schedule, and so are extremes, where of 0 and -0 either may come first. The reference evaluator
has neither, so what it says of them may differ in the last bits from what a program computes; so may formulas that
round more than once. All else is exact or rounded once: arithmetic, roots, comparisons, whatever moves elements, and
all of the integers.

A view is exact, and yet stays: a sum over it is taken in the order in which its elements lie, which would be another
one for an array of its own.
"""

from __future__ import annotations

from dfc.ir.graph import Node, Value
from dfc.kernels.body import Apply, AxisIndex, BodyBuilder, Instruction, Number
from dfc.ops import registry
from dfc.ops.lowering.forms import Decompose, Elementwise, HostCall, Reduce

APPROXIMATE = frozenset(
    ("exp", "exp_of_nonpositive", "sigmoid", "log", "log1p", "sin", "cos", "tanh", "erf", "pow", "fma")
)
"""Functions of floats that targets expand, or that differ with their instructions."""
ROUNDED = frozenset(("add", "sub", "mul", "div", "floordiv", "mod", "sqrt", "rsqrt"))
"""Functions of floats that every target rounds as the reference does."""
SUMMING = frozenset(("matmul", "cumsum", "cumprod", "cummax", "cummin", "scatter_add"))
"""Ops lowered by fusion itself that combine values in an order of their own."""
DRAWING = frozenset(("random", "draw", "redraw"))
VIEWS = frozenset(("transpose", "slice", "reverse", "windows", "broadcast", "pad"))
"""Ops that are read in place, with elements elsewhere than in memory of their own."""


def is_exact(node: Node) -> bool:
    """Whether the reference evaluation of a node, in its place, gives every target's bits."""
    lowering = registry.record(node.op).lowering
    match lowering:
        case Elementwise():
            return _is_exact_body(node, lowering)
        case Reduce():
            return not _has_floats(node)
        case Decompose():
            return not any(v.tensor.dtype.is_float for v in node.results)  # its pieces are folded after `expand`
        case HostCall():
            return False
        case _:
            if node.op in DRAWING or (node.op in SUMMING and _has_floats(node)):
                return False
            return node.op not in VIEWS or not _has_floats(node) or _is_single(node.result)


def _has_floats(node: Node) -> bool:
    return any(v.tensor.dtype.is_float for v in (*node.operands, *node.results) if not v.is_token)


def _is_single(value: Value) -> bool:
    return value.tensor.elements.constant in (0, 1)


def _is_exact_body(node: Node, lowering: Elementwise) -> bool:
    body = BodyBuilder()
    operands = [body.append(AxisIndex(axis), (), v.tensor.machine) for axis, v in enumerate(node.operands)]
    lowering.emit(body, operands, node)
    added = body.instructions[len(operands) :]
    return all(_is_exact_instruction(each) for each in added) and sum(map(_is_rounding, added)) <= 1


def _is_exact_instruction(instruction: Instruction) -> bool:
    match instruction.operation:
        case Apply(function):
            return function not in APPROXIMATE or not instruction.dtype.is_float
        case operation:
            return isinstance(operation, Number)


def _is_rounding(instruction: Instruction) -> bool:
    operation = instruction.operation
    return isinstance(operation, Apply) and operation.function in ROUNDED and instruction.dtype.is_float
