"""What only nodes with rows use: made of the whole batch, at the owners, if that lets less of it travel.

    let mask = truth[:, new] == numbers     bool[B, N]: numbers are of all rows, and only a node by rows takes the mask
    -> the numbers in `truth` come together, i32[B], and each owner compares them with those of its own rows

Assumes the findings of an entry that is not cut yet. Guarantees nodes whose results go nowhere else, and that what goes
into them is no larger than what comes out; what every task can make for itself counts for nothing.
"""

from __future__ import annotations

from math import prod

from dfc.distribute.shard.analysis import Findings
from dfc.distribute.shard.model import Division
from dfc.ir import walk
from dfc.ir.dims import Dim
from dfc.ir.graph import Block, Node, Value
from dfc.ops.effects.effects import is_pure
from dfc.ops.lowering.views import Movement, movement_of
from dfc.ops.rules.lookup import is_elementwise

VIEWS = (Movement.REORDERED, Movement.REPEATED)
ASSUMED = 64
"""The size of a dimension that no number is known for."""


def colocated_with_rows(block: Block, findings: Findings) -> dict[Node, Division]:
    """The nodes, each with the division of those rows."""
    handed_out = {value for each in walk.blocks(block) for value in each.outputs}
    free = _recomputable(block)
    chosen: dict[Node, Division] = {}
    for node in sorted(findings.order, key=lambda each: -findings.order[each]):
        if (
            node in findings.required
            or not (movement_of(node) in VIEWS or is_elementwise(node))
            or node.result in handed_out
        ):
            continue
        users = findings.users.get(node.result, set())
        owners = {
            chosen.get(user) or (findings.division(user) if user in findings.required else None) for user in users
        }
        division = owners.pop() if len(owners) == 1 else None
        if division is not None and _is_no_smaller(node, free):
            chosen[node] = division
    return chosen


def _recomputable(block: Block) -> set[Value]:
    """What is made of nothing but constants, sizes and positions."""
    recomputable: set[Value] = set()
    for node in walk.nodes(block):
        if not node.regions and is_pure(node) and all(value in recomputable for value in node.operands):
            recomputable.update(node.results)
    return recomputable


def _is_no_smaller(node: Node, free: set[Value]) -> bool:
    operand_bytes = sum(_bytes(value) for value in dict.fromkeys(node.operands) if value not in free)
    return operand_bytes <= _bytes(node.result)


def _bytes(value: Value) -> int:
    return prod(_assumed(axis) for axis in value.tensor.shape) * value.tensor.machine.numpy.itemsize


def _assumed(axis: Dim) -> int:
    return max(axis.evaluate(dict.fromkeys(axis.symbols(), ASSUMED)), 0)
