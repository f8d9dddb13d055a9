"""What follows from which axes a contraction has: whether it is a product of matrices as it stands, and how a loop that
multiplies with a matrix from outside uses it.

    axes of `a @ b` with a batch:   left (0, 1, 3), right (0, 3, 2): the result has axes 0, 1, 2; 3 is summed over
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Node
from dfc.ops.lowering.forms import Contract, ContractAxes
from dfc.ops.registry import lowering_of


def contraction_of(node: Node | None) -> ContractAxes | None:
    """The axes of a node that is a contraction."""
    lowering = lowering_of(node) if node is not None else None
    return lowering.axes(node) if isinstance(lowering, Contract) and node is not None else None


def product_axes(rank: int) -> ContractAxes:
    """Those of `a @ b` whose result has so many axes, at least two: all but the last two are a batch."""
    batch = tuple(range(rank - 2))
    return ContractAxes((*batch, rank - 2, rank), (*batch, rank, rank - 1))


@dataclass(frozen=True, slots=True)
class WithMatrix:
    """A contraction of a value of one or two axes with a matrix. `summed_first`: the matrix has the axis that is summed
    over first; `factor_turned`: the other operand has it before the axis of its rows; `result_turned`: these rows are
    the last axis of the result."""

    summed_first: bool
    factor_turned: bool
    result_turned: bool


def with_matrix(node: Node, number: int) -> WithMatrix | None:
    """A node as the contraction of its other operand with a matrix, its operand of this number; None if it is none."""
    axes = contraction_of(node)
    if axes is None:
        return None
    matrix, factor = (axes.left, axes.right) if number == 0 else (axes.right, axes.left)
    summed = node.result.tensor.rank
    columns = [axis for axis in matrix if axis != summed]
    rows = [axis for axis in factor if axis != summed]
    if len(matrix) != 2 or len(columns) != 1 or len(rows) > 1 or rows == columns:
        return None
    return WithMatrix(matrix[0] == summed, bool(rows) and factor[0] == summed, bool(rows) and columns[0] == 0)
