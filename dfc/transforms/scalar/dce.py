"""dce: drops what nobody uses, inside region nodes too: results of `if`, carried values, emits, idle tokens.

    let a: f32, b: f32 = if c {        let a: f32 = if c {
      yield exp(x), sin(x)               yield exp(x)
    } else {                    ->     } else {
      yield x, cos(x)                    yield x
    }                                  }

A node that measures a size is used if something used mentions the size. A carried value is used if a result, the
condition, an effect, or another used carried value needs it. A token that all regions hand on as it came is idle and
goes around the node.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir import walk
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.measured import Dependence
from dfc.ir.regions import Flow, RegionView, controls, flows, view
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect
from dfc.transforms.scalar.dead_results import around, eliminate_dead_results, idle_results, without_idle_tokens

NAME = "dce"


def dce(graph: Graph) -> Graph:
    return map_blocks(graph, dce_block)


def dce_block(block: Block) -> Block:
    used = Marker(block).run()
    return without_idle_tokens(rebuild(block, _EliminateDeadResults(used)))


class Marker:
    """Finds the values that are used, one by one: results of region nodes apart from each other."""

    def __init__(self, block: Block) -> None:
        self._views: dict[Node, RegionView] = {node: view(node) for node in walk.nodes(block) if node.regions}
        self._flows = {node: flows(parts) for node, parts in self._views.items()}
        self._received = {p: flow for each in self._flows.values() for flow in each for p in flow.parameters}
        self._used: set[Value] = set()
        self._entered: set[Node] = set()
        self._pending = list(block.outputs)
        self._dependence = Dependence.within(block)

    def run(self) -> set[Value]:
        while self._pending:
            value = self._pending.pop()
            if value in self._used:
                continue
            self._used.add(value)
            self._pending += self._dependence.of(value)
            flow = self._received.get(value)
            if flow is not None:
                self._parameter(flow)
            elif value.node is not None:
                self._result(value, value.node)
        return self._used

    def _result(self, value: Value, node: Node) -> None:
        if not node.regions:
            before = self.passes_by(value)
            self._pending += node.operands if before is None else [before]
            return
        if node not in self._entered:
            self._entered.add(node)
            self._pending += controls(self._views[node])
        flow = self._flows[node][value.index]
        self._pending += [v for v in (*flow.outputs, flow.initial, flow.tested) if v is not None]

    def passes_by(self, value: Value) -> Value | None:
        """The token that a token result only hands on, if its node does nothing that a later effect could see."""
        node = value.node
        if node is None or not value.is_token or effect(node) is not Effect.READ:
            return None
        return next(v for v in node.operands if v.is_token)

    def _parameter(self, flow: Flow) -> None:
        """A used parameter needs what flows into it: the operand, and for loops the next value."""
        assert flow.initial is not None
        self._pending.append(flow.initial)
        owner = flow.result.node
        if owner is not None and owner.op != "if":
            self._pending.append(flow.result)


class _EliminateDeadResults(Pass):
    """Drops unused nodes, and unused parts of region nodes."""

    def __init__(self, used: set[Value]) -> None:
        self._used = used

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        node = site.node
        if not any(v in self._used for v in node.results):
            return around(site)
        if effect(node) is Effect.READ and not any(v in self._used for v in node.results if not v.is_token):
            return around(site)
        if not node.regions:
            return None
        results = zip(node.results, idle_results(site), strict=True)
        keep = [v in self._used and not idle for v, idle in results]
        return None if all(keep) else eliminate_dead_results(site, keep)
