"""Which tasks have a value: the sites of values, from those of nodes.

Assumes a placement of all nodes that do not float. Guarantees a site for every value of an entry, or None where
each role can make the value from what every one has (feeds, constants, sizes, the index of a loop).

A result of a region is where the body makes it; carried values that a body only hands on stay where they came from.
What gives a size its value (`range`) has no site: each role that has to know the size counts by itself, from the number
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

ValueSites = Mapping[Value, TaskSite | None]


def sites_of_values(block: Block, placement: Placement) -> dict[Value, TaskSite | None]:
    """The site of every value that is no token, nested ones included."""
    sites: dict[Value, TaskSite | None] = {value: None for value in block.parameters if not value.is_token}
    for node in walk.nodes(block):  # outer before inner: the inner nodes' own sites decide for carried values
        site = placement.nodes.get(node) if measured(node) is None else None
        for value in node.results:
            sites.setdefault(value, site)
        if node.regions:
            _region(node, placement, sites)
    return sites


def _region(node: Node, placement: Placement, sites: dict[Value, TaskSite | None]) -> None:
    parts = view(node)
    for flow in flows(parts):
        if not flow.result.is_token:
            site = _result_site(node, flow, placement)
            sites[flow.result] = site
            sites.update((parameter, site) for parameter in flow.parameters)
    if isinstance(parts, ForView):
        sites[parts.index] = None


def _result_site(node: Node, flow: Flow, placement: Placement) -> TaskSite | None:
    """Where a result is made: by the nodes that end the regions where they agree, else at the node itself."""
    sites: set[TaskSite | None] = set()
    for value in flow.outputs:
        maker = value.node
        sites.add(placement.nodes.get(maker) if maker is not None and measured(maker) is None else None)
    distinct = {site for site in sites if site is not None}
    return distinct.pop() if len(distinct) == 1 else placement.nodes.get(node, placement.default_site)
