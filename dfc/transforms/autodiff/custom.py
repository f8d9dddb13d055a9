"""The backward pass through a call with a gradient of its own: its gradients once more, with real cotangents.

    let s: f32 = cotangent(y) * x                 let z_grad: f32 = ...
    let z: f32 = custom(y, x, c, s)     ->        let x_grad: f32 = z_grad * x

Assumes that the gradients see nothing of the body but results and parameters, which the front end makes sure of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.ir import walk
from dfc.ir.graph import Node, Value
from dfc.ir.rewrite import Cloner
from dfc.ops.builder import Builder
from dfc.ops.control.derivatives import custom_view
from dfc.transforms.autodiff.expose import zeros


def stated(
    builder: Builder, node: Node, cotangents: Sequence[Value | None], environment: Mapping[Value, Value]
) -> Sequence[Value]:
    """The cotangents of the parameters, by what the function states."""
    call = custom_view(node)
    cloner = Cloner(environment, rename="{}/grad".format)
    own = {
        stand_in: cotangent if cotangent is not None else zeros(builder, stand_in)
        for stand_in, cotangent in zip(call.cotangents, cotangents, strict=True)
    }
    # where a gradient uses a result, it is that of the call, so that second gradients are the stated ones too
    own.update((old, environment.get(new, new)) for old, new in zip(call.computed, call.results, strict=True))
    cloner.values.update(own)
    cloner.inline(_between(call.gradients, own, call.parameters), builder.block.nodes)
    return [cloner.value(gradient) for gradient in call.gradients]


def _between(gradients: Sequence[Value], own: Mapping[Value, Value], parameters: Sequence[Value]) -> list[Node]:
    """The nodes that gradients need and that depend on cotangents or results, operands first."""
    ends = {*own, *parameters}
    order: list[Node] = []
    entered: set[Node] = set()
    pending = [(v.node, False) for v in gradients if v.node is not None and v not in ends]
    while pending:
        node, done = pending.pop()
        if done:
            order.append(node)
        elif node not in entered:
            entered.add(node)
            pending.append((node, True))
            below = [v for v in walk.inputs(node) if v not in ends]
            pending.extend((v.node, False) for v in below if v.node is not None and v.node not in entered)
    depending = set(own)
    nodes: list[Node] = []
    for node in order:
        if any(v in depending for v in walk.inputs(node)):
            depending.update(node.results)
            nodes.append(node)
    return nodes
