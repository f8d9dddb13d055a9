"""Variables that an entry writes, as values to be fetched by their full names: `train/net.output.w`.

    entry train(x) {                               entry train(x) {
      w -= rate * grad(loss(x), w)        ->         w -= rate * grad(loss(x), w)
      n += 1                                         n += 1
    }                                                let w_after = w
                                                   }           (`train/w` fetched: the update of w runs, that of n not)

Before: an entry as the front end makes it. After: the same, with a read behind everything else for each variable that
was asked for. So subgraph extraction keeps the writes of that variable and what they need, as for any value that is
read after them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dfc.ir.graph import Block, Entry, Graph, ResourceKind, Value
from dfc.ir.types import TokenType
from dfc.ops.attributes import ResourceAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.effects import effects
from dfc.ops.record import Effect


def written_variables(graph: Graph, entry: Entry) -> dict[str, str]:
    """The variable behind each full name."""
    written = {
        value.type.resource
        for node in entry.block.nodes
        if Effect.WRITE in effects(node)
        for value in node.results
        if isinstance(value.type, TokenType)
    }
    variables = [each.name for each in graph.resources.values() if each.kind is ResourceKind.VARIABLE]
    return {f"{entry.name}/{name}": name for name in variables if name in written}


def read_after(graph: Graph, entry: Entry, names: Collection[str]) -> tuple[Entry, dict[str, Value]]:
    """The entry with these variables read at its end, and what each read gives, by the full name."""
    nodes = list(entry.block.nodes)
    latest = {
        value.type.resource: value for node in nodes for value in node.results if isinstance(value.type, TokenType)
    }
    values: dict[str, Value] = {}
    for full, variable in written_variables(graph, entry).items():
        if full in names:
            resource, token = graph.resources[variable], latest[variable]
            reader = Builder.appending(nodes, name=f"{full}:after", span=resource.span).add(
                "read", (token,), (resource.type, token.type), ResourceAttributes(variable)
            )
            values[full] = reader.results[0]
    block = Block(entry.block.parameters, nodes, entry.block.outputs)
    return replace(entry, block=block), values
