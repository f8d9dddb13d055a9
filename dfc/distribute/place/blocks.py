"""What every task of a replicated job does for its own blocks, and where else it cannot be.

Assumes an entry that `replicate` has rewritten, with the size that counts the blocks of a task. Guarantees that what is
named here runs in all tasks of the job: in one of them alone it would see the blocks of that one only.
"""

from __future__ import annotations

from collections.abc import Iterator

from dfc.distribute.place.cost import nodes_inside
from dfc.distribute.place.model import PlacementConstraints
from dfc.ir import walk
from dfc.ir.dims import Symbol, dim
from dfc.ir.graph import Entry, Node
from dfc.ops.attributes import ForAttributes
from dfc.ops.effects.communication import CombinedAttributes, ContributeAttributes, OwnRowsAttributes

SHARED = (ContributeAttributes, CombinedAttributes, OwnRowsAttributes)


def is_blockwise(node: Node, count: Symbol) -> bool:
    """Whether a node goes over the blocks of a task, takes part in a combination, or has something inside that does."""
    return any(isinstance(inner.attributes, SHARED) or _goes_over(inner, count) for inner in nodes_inside(node))


def _goes_over(node: Node, count: Symbol) -> bool:
    return isinstance(node.attributes, ForAttributes) and node.attributes.trips == dim(count)


def names_in_blocks(entry: Entry, count: Symbol) -> frozenset[str]:
    """The names of what is done for each block."""
    loops = (node for node in walk.nodes(entry.block) if _goes_over(node, count))
    return frozenset(node.name for loop in loops for node in nodes_inside(loop) if node is not loop)


def strays(entry: Entry, constraints: PlacementConstraints) -> Iterator[Node]:
    """Nodes in the blocks of an entry that a line wants somewhere else than in all tasks of its job; last those that
    only go through the blocks, which mean nothing to the author."""
    count, job = constraints.counts.get(entry.name), constraints.replicated.get(entry.name)
    if count is None:
        return
    for loop in walk.nodes(entry.block):
        if not _goes_over(loop, count):
            continue
        for node in sorted(nodes_inside(loop), key=lambda node: node.name.startswith(f"{entry.name}/block")):
            constraint = constraints.values.get(node.name)
            if (
                constraint is not None
                and constraint.job is not None
                and (constraint.job != job or constraint.task is not None)
            ):
                yield node
