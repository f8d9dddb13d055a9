"""Random placements: state first, whatever uses it beside it, everything else anywhere or nowhere."""

from __future__ import annotations

from random import Random

from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.deployment.placement import Placement
from dfc.ir import walk
from dfc.ir.graph import Block, Graph, Node
from dfc.ops.attributes import AssignAttributes, DrawAttributes, ResourceAttributes
from dfc.ops.effects.effects import is_pure
from dfc.ops.record import Effect
from dfc.ops.registry import record


def random_placement(graph: Graph, random: Random) -> Placement:
    """Up to three jobs of up to three tasks; sites are tasks by number or whole jobs."""
    tasks = {name: random.randint(1, 3) for name in random.sample(["ps", "worker", "chief"], random.randint(1, 3))}
    sites = [TaskSite(job) for job in tasks] + [TaskSite(job, n) for job, count in tasks.items() for n in range(count)]
    state = {name: random.choice(sites) for name in graph.resources}
    nodes: dict[Node, TaskSite] = {}
    for _, block in walk.graph_blocks(graph):
        _assign_sites(block, state, sites, nodes, random)
    return Placement(tasks, state, nodes, random.choice(sites))


def _assign_sites(
    block: Block, state: dict[str, TaskSite], sites: list[TaskSite], nodes: dict[Node, TaskSite], random: Random
) -> None:
    floating: set[object] = set(block.parameters)
    for node in walk.nodes(block):
        match node.attributes:
            case ResourceAttributes(name) | AssignAttributes(name) | DrawAttributes(name):
                nodes[node] = state[name]
            case _:
                plain = record(node.op).effect in (Effect.PURE, Effect.RANDOM) and not node.regions and is_pure(node)
                if plain and all(v in floating for v in node.operands) and random.random() < 0.7:
                    floating.update(node.results)
                else:
                    nodes[node] = random.choice(sites)
