"""expose: makes what the backward pass needs from inside an `if` or a `for` results of it (a first step of `autodiff`).

    let y: f32 = if c {                          let y: f32, y_1: f32 = if c {
      let a: f32 = graph.draw(..)                  let a: f32 = graph.draw(..)
      yield a * a                          ->      yield a * a, a
    } else { yield x }                           } else { yield x, zero }

The backward pass through a region computes its pure values again; what came from an effect it takes from these results.
A `for` whose number of iterations is known emits this, what each iteration starts with, and products, which cost most
to compute again (but not `with recompute`). Results that stay unused go in `dce`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.diagnostics.source import NOWHERE
from dfc.ir.dims import Symbol
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import depends_on, own_symbols
from dfc.ir.names import name_nodes
from dfc.ir.regions import IfView, flows, for_view, old_results, remade, view, with_more_results, with_outputs
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ops.builder import Builder
from dfc.ops.effects.effects import is_pure
from dfc.ops.rules.lookup import rules_of

NAME = "expose"


def expose_block(block: Block) -> Block:
    return name_nodes(rebuild(block, _Expose()), block)


class _Expose(Pass):
    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node.op == "for":
            kept = site.kept()
            stacking = with_stacks(kept)
            if stacking is kept:
                return None
            site.output.append(stacking)
            return old_results(kept, stacking)
        if site.node.op != "if":
            return None
        exposed = [_effect_values(region) for region in site.regions]
        if not any(exposed):
            return None
        extra = [value for values in exposed for value in values]
        regions = [
            _with_outputs(region, [v if v in mine else None for v in extra], extra, site.node)
            for region, mine in zip(site.regions, map(set, exposed), strict=True)
        ]
        new, old, _ = with_more_results(site.node, site.operands, regions, len(extra))
        site.output.append(new)
        return old


def _effect_values(region: Block) -> list[Value]:
    """Values of a region's own nodes that cannot be computed again, and are not handed out yet."""
    outputs = set(region.outputs)
    effect_values = [v for node in region.nodes if not is_pure(node) for v in node.results if not v.is_token]
    missing = [v for v in effect_values if v not in outputs]
    inside = own_symbols(region) if missing else frozenset[Symbol]()
    for value in missing:
        if depends_on(value, inside):
            raise _only_inside(value)
    return missing


def _only_inside(value: Value) -> CompileError:
    """What comes from an effect is handed out for the backward pass, which a tensor of an inner size cannot be."""
    message = error(
        NOT_SUPPORTED_YET,
        "gradients through a block that draws a tensor of a size known only inside it are not supported yet",
        value.node.span if value.node is not None else NOWHERE,
        str(value.type),
        helps=("draw it above, in the largest size, and take the part that is needed",),
    )
    return CompileError([message])


def with_stacks(node: Node) -> Node:
    """The `for` that also emits what it started each iteration with, and what is not to be computed again."""
    parts = for_view(node)
    attributes, region = parts.attributes, parts.body
    if attributes.trips is None:
        return node
    emitted = set(parts.after.emitted)
    products = [v for inner in region.nodes if _is_saved(inner) and not attributes.recompute for v in inner.results]
    inside = own_symbols(region)
    products = [v for v in products if not depends_on(v, inside)]
    stacked = [*parts.inside.values, *_effect_values(region), *products]
    extra = [v for v in dict.fromkeys(stacked) if v not in emitted]
    if not extra:
        return node
    return remade(node, node.operands, [with_outputs(region, extra)])


def _is_saved(node: Node) -> bool:
    return not node.regions and rules_of(node).saved_for_backward


def _with_outputs(region: Block, mine: Sequence[Value | None], types: Sequence[Value], owner: Node) -> Block:
    """The region with more outputs in front of its tokens; zeros stand for values of the other branch."""
    block = Block(region.parameters, region.nodes)
    builder = Builder(block, name=f"{owner.name}/none", span=owner.span)
    outputs = [value if value is not None else zeros(builder, like) for value, like in zip(mine, types, strict=True)]
    return with_outputs(Block(block.parameters, block.nodes, region.outputs), outputs)


def zeros(builder: Builder, like: Value) -> Value:
    """Zeros of the type of a value."""
    return builder.broadcast(builder.constant(0, like.tensor.dtype), like.tensor.shape)


def exported(node: Node, region: Block) -> dict[Value, Value]:
    """Which value inside a region is handed out as which result; of a `for`, stacked."""
    parts = view(node)
    number = node.regions.index(region)
    handed = [flow for flow in flows(parts) if flow.is_emitted or isinstance(parts, IfView)]
    return {flow.outputs[number]: flow.result for flow in handed if not flow.result.is_token}
