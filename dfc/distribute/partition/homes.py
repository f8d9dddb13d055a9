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
from dfc.ops.attributes import ForAttributes

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


def carried(node: Node) -> int:
    """How many values a loop carries, tokens left out."""
    if isinstance(node.attributes, ForAttributes):
        return node.attributes.carries
    return sum(1 for value in node.results if not value.is_token) if node.op == "while" else 0


def _region(node: Node, placement: Placement, homes: dict[Value, TaskSite | None]) -> None:
    count = carried(node)
    body = node.regions[-1]
    results = [value for value in node.results if not value.is_token]
    for number, value in enumerate(results):
        site = _made_at(node, number, placement)
        homes[value] = site
        if number < count:
            for region in node.regions:
                homes[region.parameters[number + (node.op == "for")]] = site
    if node.op == "for":
        homes[body.parameters[0]] = None


def _made_at(node: Node, number: int, placement: Placement) -> TaskSite | None:
    """Where result `number` is made: by the nodes that end the regions where they agree, else at the node itself."""
    sites: set[TaskSite | None] = set()
    regions = node.regions if node.op == "if" else node.regions[-1:]
    for region in regions:
        maker = region.outputs[number].node
        sites.add(placement.nodes.get(maker) if maker is not None and measured(maker) is None else None)
    found = {site for site in sites if site is not None}
    return found.pop() if len(found) == 1 else placement.nodes.get(node, placement.home)
