"""Region nodes with fewer results: what `dce` drops, and tokens that nothing inside a node uses.

A token is idle if every region hands it on as it came; it then goes around the node. Whoever removes effects calls
`without_idle_tokens`, so that nodes and entries thread exactly the resources they have effects on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dfc.ir.graph import Block, Node, Value
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ops.attributes import ForAttributes


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
        keep = [not is_idle(site, index) for index in range(len(site.node.results))]
        return None if all(keep) else thin(site, keep)


def thin(site: RewriteSite, keep: Sequence[bool]) -> Sequence[Value]:
    """Appends the node with only the results to keep (none: no node) and returns what replaces the old ones."""
    if not any(keep):
        return around(site)
    return _THINNERS[site.node.op](site, keep)


def around(site: RewriteSite) -> Sequence[Value]:
    """Replaces the results of a node that goes: tokens by the tokens it received, the rest is unused."""
    tokens = iter([v for v in site.operands if v.is_token])
    return [next(tokens) if v.is_token else v for v in site.node.results]


def is_idle(site: RewriteSite, index: int) -> bool:
    """Whether a token result is the token the node received, because no region does anything with it."""
    from_end = len(site.node.results) - index
    return site.node.results[index].is_token and all(
        region.outputs[-from_end] is region.parameters[-from_end] for region in site.regions
    )


def _kept(values: Sequence[Value], keep: Sequence[bool]) -> list[Value]:
    return [value for value, wanted in zip(values, keep, strict=True) if wanted]


def _thin_if(site: RewriteSite, keep: Sequence[bool]) -> Sequence[Value]:
    tokens = keep[len(keep) - len(site.operands) + 1 :]
    regions = [Block(_kept(r.parameters, tokens), r.nodes, _kept(r.outputs, keep)) for r in site.regions]
    return _replace(site, [site.operands[0], *_kept(site.operands[1:], tokens)], regions, keep)


def _thin_while(site: RewriteSite, keep: Sequence[bool]) -> Sequence[Value]:
    condition, body = site.regions
    tokens = keep[len(keep) - len(condition.outputs) + 1 :]
    outputs = [condition.outputs[0], *_kept(condition.outputs[1:], tokens)]
    regions = [
        Block(_kept(condition.parameters, keep), condition.nodes, outputs),
        Block(_kept(body.parameters, keep), body.nodes, _kept(body.outputs, keep)),
    ]
    return _replace(site, _kept(site.operands, keep), regions, keep)


def _thin_for(site: RewriteSite, keep: Sequence[bool]) -> Sequence[Value]:
    (body,) = site.regions
    attributes = site.node.attributes
    assert isinstance(attributes, ForAttributes)
    carries = keep[: attributes.carries]
    tokens = keep[len(keep) - (len(site.operands) - 2 - len(carries)) :]
    inside = [*carries, *tokens]
    region = Block([body.parameters[0], *_kept(body.parameters[1:], inside)], body.nodes, _kept(body.outputs, keep))
    operands = [*site.operands[:2], *_kept(site.operands[2:], inside)]
    return _replace(site, operands, [region], keep, replace(attributes, carries=sum(carries)))


def _replace(
    site: RewriteSite,
    operands: Sequence[Value],
    regions: Sequence[Block],
    keep: Sequence[bool],
    attributes: ForAttributes | None = None,
) -> Sequence[Value]:
    """Appends the node with only the results to keep; idle tokens go around it."""
    node = site.node
    new = Node(
        node.op,
        operands,
        [v.type for v in _kept(node.results, keep)],
        attributes=attributes if attributes is not None else node.attributes,
        regions=regions,
        name=node.name,
        span=node.span,
    )
    site.output.append(new)
    results = iter(new.results)
    tokens = {v.type: v for v in site.operands if v.is_token}
    return [next(results) if wanted else tokens.get(v.type, v) for v, wanted in zip(node.results, keep, strict=True)]


_THINNERS: dict[str, Callable[[RewriteSite, Sequence[bool]], Sequence[Value]]] = {
    "if": _thin_if,
    "while": _thin_while,
    "for": _thin_for,
}
