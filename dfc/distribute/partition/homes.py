"""Which tasks have a value: the homes of values, from the places of nodes.

Assumes a placement of all nodes that do not float. Guarantees a home for every value of an entry: a site, or None where
each role can make the value from what every one has (feeds, constants, sizes, the index of a loop).

A result of a region is where the body makes it; carried values that a body only hands on stay where they came from.
What gives a size its value (`range`) has no home: each role that has to know the size counts by itself, from the number
that it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping

from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.deployment.placement import Placement
from dfc.ir import walk
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import measured
from dfc.ir.regions import Flow, ForView, flows, view

Homes = Mapping[Value, TaskSite | None]


def homes_of(block: Block, placement: Placement) -> dict[Value, TaskSite | None]:
    """The home of every value that is no token, nested ones included."""
    homes: dict[Value, TaskSite | None] = {value: None for value in block.parameters if not value.is_token}
    for node in walk.nodes(block):  # outer before inner: the inner nodes' own sites decide for carried values
        site = placement.nodes.get(node) if measured(node) is None else None
        for value in node.results:
            homes.setdefault(value, site)
        if node.regions:
            _region(node, placement, homes)
    return homes


def _region(node: Node, placement: Placement, homes: dict[Value, TaskSite | None]) -> None:
    parts = view(node)
    for flow in flows(parts):
        if not flow.result.is_token:
            site = _made_at(node, flow, placement)
            homes[flow.result] = site
            homes.update((parameter, site) for parameter in flow.parameters)
    if isinstance(parts, ForView):
        homes[parts.index] = None


def _made_at(node: Node, flow: Flow, placement: Placement) -> TaskSite | None:
    """Where a result is made: by the nodes that end the regions where they agree, else at the node itself."""
    sites: set[TaskSite | None] = set()
    for value in flow.outputs:
        maker = value.node
        sites.add(placement.nodes.get(maker) if maker is not None and measured(maker) is None else None)
    found = {site for site in sites if site is not None}
    return found.pop() if len(found) == 1 else placement.nodes.get(node, placement.home)
