"""Region nodes with fewer results: what `dce` drops, and tokens that nothing inside a node uses.

A token is idle if every region hands it on as it came; it then goes around the node. Whoever removes effects calls
`without_idle_tokens`, so that nodes and entries thread exactly the resources they have effects on.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.graph import Block, Value
from dfc.ir.regions import Flow, flows, keep_results, view
from dfc.ir.rewrite import Pass, RewriteSite, rebuild


def without_idle_tokens(block: Block) -> Block:
    """The block, and the nodes in it, without tokens that no effect consumes."""
    return _without_own_idle_tokens(rebuild(block, _DropIdle()))


def _without_own_idle_tokens(block: Block) -> Block:
    outputs = set(block.outputs)
    idle = {v for v in block.parameters if v.is_token and v in outputs}
    if not idle:
        return block
    parameters = [v for v in block.parameters if v not in idle]
    return Block(parameters, block.nodes, [v for v in block.outputs if v not in idle])


class _DropIdle(Pass):
    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if not site.regions:
            return None
        keep = [not idle for idle in idle_results(site)]
        return None if all(keep) else eliminate_dead_results(site, keep)


def eliminate_dead_results(site: RewriteSite, keep: Sequence[bool]) -> Sequence[Value]:
    """Appends the node with only the results to keep (none: no node) and returns what replaces the old ones."""
    if not any(keep):
        return around(site)
    node = keep_results(view(site.node, site.operands, site.regions), keep)
    site.output.append(node)
    results = iter(node.results)
    tokens = {v.type: v for v in site.operands if v.is_token}
    pairs = zip(site.node.results, keep, strict=True)
    return [next(results) if is_kept else tokens.get(v.type, v) for v, is_kept in pairs]


def around(site: RewriteSite) -> Sequence[Value]:
    """Replaces the results of a node that goes: tokens by the tokens it received, the rest is unused."""
    tokens = iter([v for v in site.operands if v.is_token])
    return [next(tokens) if v.is_token else v for v in site.node.results]


def idle_results(site: RewriteSite) -> list[bool]:
    """Of each result of a node with regions whether it is the token that the node received, because no region does
    anything with it."""
    return [_is_idle(flow) for flow in flows(view(site.node, site.operands, site.regions))]


def _is_idle(flow: Flow) -> bool:
    if not flow.result.is_token:
        return False
    after = (*flow.outputs, *((flow.tested,) if flow.tested is not None else ()))
    return set(after) <= set(flow.parameters)
