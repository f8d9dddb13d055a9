"""A reference evaluation that remembers every value at the top level of an entry, and may replace some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dfc.ir.graph import Block, Node, Value
from dfc.ops import evaluate as reference
from dfc.ops.sizes.of_feeds import bind_sizes
from tests.support.cases import Case


class _Observer(reference._Machine):
    """Replaced values are put in place of what their node computes, so that everything below sees them."""

    def __init__(self, sizes: Mapping, replaced: Mapping[Value, np.ndarray]) -> None:
        super().__init__(sizes, None)
        self.replaced = replaced

    def _node(self, node: Node, operands: list) -> Sequence:
        results = super()._node(node, operands)
        return [self.replaced.get(value, result) for value, result in zip(node.results, results, strict=True)]


def observed(case: Case, replaced: Mapping[Value, np.ndarray] | None = None) -> dict[Value, np.ndarray]:
    """The values of the entry `e` of a case: parameters, and results of its outermost nodes."""
    entry = case.graph.entries["e"]
    feeds, state = case.feeds(), case.state()
    arrays = [feeds[name] for name in entry.parameter_names]
    machine = _Observer(bind_sizes(entry, [a.shape for a in arrays], {}), replaced or {})
    block: Block = entry.block
    tokens = [v for v in block.parameters if v.is_token]
    machine.call(block, [*arrays, *(reference._resource_value(case.graph, v, state) for v in tokens)])
    known = [*block.parameters, *(v for node in block.nodes for v in node.results)]
    return {v: machine._values[v] for v in known}
