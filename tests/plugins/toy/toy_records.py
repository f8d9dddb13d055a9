"""An op of another package with rules of its own: what passes have to know of the sum of squares.

With these it is computed in blocks and by the owners of rows, gradients are known as means or sums, the norm of a
gradient that is zero but for some rows is made of these rows, short batches are filled up, and placement knows what it
costs. Without them it would need all of its operand, and all else would be as right.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dfc.ir.graph import Node, Value
from dfc.ops.builder import Builder
from dfc.ops.lowering.forms import Reduce
from dfc.ops.reduction.reductions import register_reduction
from dfc.ops.reduction.rules import reduced, sum_degree
from dfc.ops.rules.costs import Cost, SizeOf, elements
from dfc.ops.rules.degrees import MaybeDegree, Sizes, to_the
from dfc.ops.rules.filling import ADDED
from dfc.ops.rules.op_rules import DEFAULTS
from dfc.ops.rules.row_sparsity import Sparse, combined, each_term, whole_sum


def degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    """Squares grow twice as fast, and as many of them are added as there are elements."""
    return sum_degree(node, [to_the(degrees[0], 2)], sizes)


def cost(node: Node, size_of: SizeOf) -> Cost:
    """A multiplication and an addition for each element."""
    return Cost(operations=2 * elements(node.operands[0], size_of))


def of_rows(b: Builder, node: Node, x: Sparse) -> Value | None:
    """From the rows that are not zero alone, those with the same number added up before they are squared."""
    once = None if node.result.tensor.shape else combined(b, x, node.operands[0].tensor.shape)
    squares = None if once is None else each_term(once, lambda term: b.apply("square", term.rows))
    return None if squares is None else whole_sum(b, squares)


def gradient(b: Builder, node: Node, _result: Value, dy: Value) -> Value:
    x = node.operands[0]
    return b.apply("mul", b.apply("mul", b.scalar_like(2, x), x), b.broadcast(dy, x.tensor.shape))


register_reduction(
    "sum_squares",
    "float",
    "The sum of the squares.",
    lambda x, axes, keep: np.sum(x * x, axes, keepdims=keep),
    Reduce("add", before=lambda body, x, _node: body.apply("mul", x, x)),
    gradient,
    identities=(),
    rules=replace(DEFAULTS, sharding=reduced("sum"), degree=degree, cost=cost, row_total=of_rows, filling=ADDED),
)
