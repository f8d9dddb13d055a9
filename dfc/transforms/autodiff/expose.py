"""expose: makes what the way back needs from inside an `if` or a `for` results of it (a first step of `autodiff`).

    let y: f32 = if c {                          let y: f32, y_1: f32 = if c {
      let a: f32 = graph.draw(..)                  let a: f32 = graph.draw(..)
      yield a * a                          ->      yield a * a, a
    } else { yield x }                           } else { yield x, zero }

The way back through a region computes its pure values again; what came from an effect it takes from these results. A
`for` whose number of rounds is known emits this, what each round starts with, and products, which cost most to compute
again (but not `with recompute`). Results that stay unused go in `dce`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.diagnostics.source import NOWHERE
from dfc.ir.dims import Symbol
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import depends_on, own_symbols
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ops import registry
from dfc.ops.attributes import ForAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.effects import is_pure

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
            count = sum(1 for v in kept.results if not v.is_token)
            tokens = stacking.results[len(stacking.results) - len(kept.results) + count :]
            return [*stacking.results[:count], *tokens]
        if site.node.op != "if":
            return None
        wanted = [_effect_values(region) for region in site.regions]
        if not any(wanted):
            return None
        count = sum(1 for v in site.node.results if not v.is_token)
        extra = [value for values in wanted for value in values]
        regions = [
            _with_outputs(region, count, [v if v in mine else None for v in extra], extra, site.node)
            for region, mine in zip(site.regions, map(set, wanted), strict=True)
        ]
        node = site.node
        types = [v.type for v in node.results]
        types[count:count] = [v.type for v in extra]
        new = Node(
            node.op,
            site.operands,
            types,
            attributes=node.attributes,
            regions=regions,
            name=node.name,
            span=node.span,
        )
        site.output.append(new)
        return [*new.results[:count], *new.results[count + len(extra) :]]


def _effect_values(region: Block) -> list[Value]:
    """Values of a region's own nodes that cannot be computed again, and are not handed out yet."""
    given = set(region.outputs)
    found = [v for node in region.nodes if not is_pure(node) for v in node.results if not v.is_token]
    wanted = [v for v in found if v not in given]
    inside = own_symbols(region) if wanted else frozenset[Symbol]()
    for value in wanted:
        if depends_on(value, inside):
            raise _only_inside(value)
    return wanted


def _only_inside(value: Value) -> CompileError:
    """What comes from an effect is handed out for the way back, which a tensor of an inner size cannot be."""
    message = error(
        NOT_SUPPORTED_YET,
        "gradients through a block that draws a tensor of a size known only inside it are not supported yet",
        value.node.span if value.node is not None else NOWHERE,
        str(value.type),
        helps=("draw it above, in the largest size, and take the part that is needed",),
    )
    return CompileError([message])


def with_stacks(node: Node) -> Node:
    """The `for` that also emits what it started each round with, and what is not to be computed again."""
    attributes = node.attributes
    assert isinstance(attributes, ForAttributes)
    if attributes.trips is None:
        return node
    (region,) = node.regions
    plain = sum(1 for v in region.outputs if not v.is_token)
    emitted = set(region.outputs[attributes.carries : plain])
    products = [v for inner in region.nodes if _is_product(inner) and not attributes.recompute for v in inner.results]
    inside = own_symbols(region)
    products = [v for v in products if not depends_on(v, inside)]
    wanted = [*region.parameters[1 : attributes.carries + 1], *_effect_values(region), *products]
    extra = [v for v in dict.fromkeys(wanted) if v not in emitted]
    if not extra:
        return node
    types = [v.type for v in node.results]
    types[plain:plain] = [v.tensor.with_shape((attributes.trips, *v.tensor.shape)) for v in extra]
    body = Block(region.parameters, region.nodes, (*region.outputs[:plain], *extra, *region.outputs[plain:]))
    return Node(node.op, node.operands, types, attributes=attributes, regions=(body,), name=node.name, span=node.span)


def _is_product(node: Node) -> bool:
    return not node.regions and registry.record(node.op).family == "product"


def _with_outputs(
    region: Block, count: int, mine: Sequence[Value | None], types: Sequence[Value], owner: Node
) -> Block:
    """The region with more outputs in front of its tokens; zeros stand for values of the other branch."""
    block = Block(region.parameters, region.nodes)
    builder = Builder(block, name=f"{owner.name}/none", span=owner.span)
    outputs = [value if value is not None else zeros(builder, like) for value, like in zip(mine, types, strict=True)]
    block.outputs = (*region.outputs[:count], *outputs, *region.outputs[count:])
    return block


def zeros(builder: Builder, like: Value) -> Value:
    """Zeros of the type of a value."""
    return builder.broadcast(builder.constant(0, like.tensor.dtype), like.tensor.shape)


def exported(node: Node, region: Block) -> dict[Value, Value]:
    """Which value inside a region is handed out as which result; of a `for`, stacked."""
    first = node.attributes.carries if isinstance(node.attributes, ForAttributes) else 0
    pairs = zip(region.outputs[first:], node.results[first:], strict=True)
    return {inside: result for inside, result in pairs if not inside.is_token}
