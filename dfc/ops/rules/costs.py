"""Rules of cost: how much a node computes and how many bytes it moves, whatever machine it runs on.

What that takes in seconds, and what a message costs beside it, is the matter of `distribute/place/cost`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Cost:
    """`operations` are multiplications and additions of products, `bytes` what is read and written besides. Without
    `work` a node does nothing by itself: it is computed where its result is used, or says only where something is."""

    operations: float = 0.0
    bytes: float = 0.0
    work: bool = True


NOTHING = Cost(work=False)
SizeOf = Callable[[Dim], int]
"""The number of a size, an assumed one where it is not known."""
CostRule = Callable[[Node, SizeOf], Cost]


def elements(value: Value, size_of: SizeOf) -> int:
    return math.prod(size_of(size) for size in value.tensor.shape)


def bytes_of(type_: TensorType, size_of: SizeOf) -> int:
    return math.prod(size_of(size) for size in type_.shape) * type_.machine.numpy.itemsize


def memory(node: Node, size_of: SizeOf) -> Cost:
    """The default: it takes as long as its operands and results take to be read and written."""
    values = (*node.operands, *node.results)
    return Cost(bytes=sum(bytes_of(v.type, size_of) for v in values if isinstance(v.type, TensorType)))


def gathered(node: Node, size_of: SizeOf) -> Cost:
    """Reads of its first operand what it gives, however large that is, and writes it; and reads the indices."""
    return Cost(bytes=bytes_of(node.operands[1].tensor, size_of) + 2 * bytes_of(node.result.tensor, size_of))


def free(node: Node, size_of: SizeOf) -> Cost:
    """For what moves no memory: views, constants, sizes, positions."""
    del node, size_of
    return NOTHING


def product(node: Node, size_of: SizeOf) -> Cost:
    """Twice the multiplications of a product of the first two operands, whose number is the geometric mean of what goes
    in and out, squared."""
    counts = [float(elements(value, size_of)) for value in (*node.operands[:2], node.result)]
    return Cost(operations=2 * math.sqrt(math.prod(counts)))
