"""place: a site for all state and every node, by the constraints of a deployment file and a simulated run.

    place "w" on ps                       w: ps:0, the task that holds the least
    let y = x @ w     (read of w)    ->   read at ps:0 with its state; the product where it is finished first

Assumes an optimised graph, entries replicated already. Guarantees a placement in which every node that touches state is
where the state is; nodes that float are left out. Pure: the same graph, constraints and costs give the same placement.

In: a graph and resolved constraints. Out: a `Placement`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.deployment.placement import Placement
from dfc.distribute.place.cost import Costs
from dfc.distribute.place.greedy import Run
from dfc.distribute.place.model import Decision, Placed, PlacementConstraints, PlacementError
from dfc.distribute.place.state import place_state, used_state
from dfc.ir import walk
from dfc.ir.graph import Entry, Graph, Node

__all__ = ["Costs", "Decision", "Placed", "PlacementConstraints", "PlacementError", "place"]


def place(graph: Graph, constraints: PlacementConstraints, costs: Costs | None = None) -> Placed:
    """Places a graph; `PlacementError` if the constraints cannot be fulfilled."""
    state = place_state(graph, constraints)
    sites = {decision.name: decision.site for decision in state}
    nodes: dict[Node, TaskSite] = {}
    decisions: dict[str, tuple[Decision, ...]] = {}
    for entry in graph.entries.values():
        if entry.is_runner:
            nodes |= _runner(entry, sites)
            continue
        default_site = _default_site(entry, constraints, [sites[n] for n in sorted(used_state(entry))])
        run = Run(entry, constraints, sites, (costs or Costs()).of_entry(entry.name), default_site)
        run.run()
        nodes |= run.nodes
        decisions[entry.name] = tuple(run.decisions)
    return Placed(Placement(constraints.tasks, sites, nodes, _client(constraints)), tuple(state), decisions)


def _runner(entry: Entry, sites: Mapping[str, TaskSite]) -> dict[Node, TaskSite]:
    """All that a runner does is done where the state is that it uses, which is in one place."""
    (site,) = {sites[name] for name in used_state(entry)}
    return dict.fromkeys(walk.nodes(entry.block), site)


def _client(constraints: PlacementConstraints) -> TaskSite:
    """Where nothing else says where: the first job, whole if entries are replicated over it, else its first task."""
    first = constraints.tasks_in_order[0]
    return TaskSite(first.job) if first.job in constraints.replicated.values() else first


def _default_site(entry: Entry, constraints: PlacementConstraints, state: Sequence[TaskSite]) -> TaskSite:
    """Where an entry runs that nothing ties: with its state, if that is in one place, else on the first task."""
    job = constraints.replicated.get(entry.name)
    if job is not None:
        return TaskSite(job)
    whole = [site for site in state if site.task is None]
    return whole[0] if whole else state[0] if len(set(state)) == 1 else _client(constraints)
