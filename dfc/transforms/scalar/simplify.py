"""simplify: applies the identities of `dfc.transforms.scalar.rules`, and hands values of variables on without reading
again.

    let a: f32[N] = x * one                  graph.assign(x, resource = "w", mode = ":=")
    graph.assign(a, resource = "w", ..)      return x
    let b: f32[N] = graph.read("w")     ->
    return b

A read directly behind a read of the same variable is that read; directly behind `:=` of the whole variable it is the
assigned value. Anything between (another write, a region, a host step) forbids it: the token tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild
from dfc.ops import registry
from dfc.ops.attributes import AssignAttributes, ShapeAttributes
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect
from dfc.transforms.scalar.prune import prune_block
from dfc.transforms.scalar.rules import RULES, Match, Rule

NAME = "simplify"
MAX_STEPS = 16


def simplify(graph: Graph) -> Graph:
    return map_blocks(graph, simplify_block)


def simplify_block(block: Block) -> Block:
    changed = rebuild(block, _Simplify())
    return block if changed is block else name_nodes(prune_block(changed), block)


class _Simplify(Pass):
    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node.regions:
            return None
        if effect(site.node) is Effect.READ:
            return _forward(site)
        if effect(site.node) is not Effect.PURE or len(site.node.results) != 1:
            return None
        replacement = _apply_rules(site)
        return None if replacement is None else (replacement,)


def _apply_rules(site: RewriteSite) -> Value | None:
    """Applies rules until none fits: a rule's result may fit another one."""
    replacement: Value | None = None
    for _ in range(MAX_STEPS):
        step = _apply_once(site)
        if step is None:
            return replacement
        replacement = step
        node = step.node
        if node is None or not site.output or site.output[-1] is not node:
            return replacement
        site = RewriteSite(node, node.operands, (), site.output)
    return replacement


def _apply_once(site: RewriteSite) -> Value | None:
    match = Match(site)
    for rule in _rules_of(site.node.op):
        replacement = rule.rewrite(match)
        if replacement is not None:
            return replacement
    return None


@cache
def _rules_of(op: str) -> tuple[Rule, ...]:
    identities = registry.record(op).identities
    return tuple(rule for rule in RULES if rule.identity == f"op:{op}" or rule.identity in identities)


def _forward(site: RewriteSite) -> Sequence[Value] | None:
    """What a read gives, if the token it takes tells it."""
    node, (token,) = site.node, site.operands
    before = token.node
    if before is None or before.regions:
        return None
    if effect(before) is Effect.READ:
        return before.results[0], token
    how = before.attributes
    if not isinstance(how, AssignAttributes) or how.mode != ":=" or how.index:
        return None
    value = before.operands[0]
    if value.type != node.results[0].type:
        value = _broadcast(site, value)
    return value, token


def _broadcast(site: RewriteSite, value: Value) -> Value:
    node = site.node
    type_ = node.results[0].tensor
    broadcast = Node(
        "broadcast", (value,), (type_,), attributes=ShapeAttributes(type_.shape), name=node.name, span=node.span
    )
    site.output.append(broadcast)
    return broadcast.result


def rules_by_identity() -> Mapping[str, Sequence[Rule]]:
    """The table, for documentation and completeness checks."""
    by_op: defaultdict[str, list[Rule]] = defaultdict(list)
    for rule in RULES:
        by_op[rule.identity].append(rule)
    return by_op
