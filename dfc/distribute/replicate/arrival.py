"""What the blocks make together is used in the order in which it can be there.

    for i in 0..NB { contribute(db); contribute(da) }          for i in 0..NB { contribute(db); contribute(da) }
    a -= rate * combined(da)                             ->    b -= rate * combined(db)
    b -= rate * combined(db)                                   a -= rate * combined(da)

The backward pass makes the gradients of the last layers first, and their sums travel while those of the first layers
are computed. Who waits for the last sum first does nothing until all of them are there; so the updates of the last
layers are done, and sent to where their variables lie, while the sums of the first ones are on their way. Assumes nodes
of one level, in an order in which they can run. Guarantees such an order, in which nodes that wait for the same keep
theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dfc.distribute.replicate.levels import Levels, common_requirements
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import Dependence
from dfc.transforms.batch.analysis import BlockSplits


def by_arrival(
    block: Block, levels: Levels, level: int, splits: BlockSplits, whole: Collection[Value]
) -> Sequence[Node]:
    """The common nodes of a level of this block, of which those come later that use what the loop before contributes
    later; what is `whole` is there."""
    nodes = levels.common[level] if level < len(levels.common) else ()
    awaited = {v for v in splits.combined if levels.phases.get(v) == level - 1 and v not in whole}
    if len(awaited) < 2:
        return nodes
    contributed = {
        value: number for number, node in enumerate(block.nodes, 1) for value in node.results if value in awaited
    }
    dependence = Dependence.within(block)
    ranks: dict[Value, int] = {}
    by_node: dict[Node, int] = {}
    for node in nodes:
        is_mixed = node in splits.uses and not splits.is_shared(node)
        required = [*(common_requirements(node, splits) if is_mixed else splits.required(node))]
        before = [contributed.get(v, 0) for v, state in required if not splits.is_local(v, state)]
        used = [v for v, _ in required] + [v for v in node.operands if v.is_token]
        used += [v for result in node.results for v in dependence.of(result)]
        by_node[node] = max([0, *before, *(ranks.get(v, 0) for v in used)])
        ranks.update(dict.fromkeys(node.results, by_node[node]))
    return sorted(nodes, key=lambda node: by_node[node])
