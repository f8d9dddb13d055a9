"""Views of requests for derivatives: what each operand and result of a `grad` or `custom` node stands for.

    grad:   loss, targets..                                     -> gradients..
    custom: computed.., parameters.., cotangents.., gradients.. -> results..

Nobody else counts positions, as with `dfc.ir.regions` for nodes with regions. Assumes a node that `dfc.ops.check`
accepts, or one on its way through `dfc.ir.rewrite`, then with the operands that it is about to have. Guarantees that
the parts of a list are all of it, in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Node, Value
from dfc.ops.attributes import CustomAttributes


@dataclass(frozen=True, slots=True)
class GradView:
    """A `grad`: `gradients`, its results, are those of the scalar `loss` with respect to the `targets`."""

    node: Node
    loss: Value
    targets: tuple[Value, ...]
    gradients: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class CustomView:
    """A call of a function with a gradient of its own: `computed` is what its body made, which the `results` hand on;
    `gradients` are for the `parameters`, each computed from the `cotangents` of what the body made."""

    node: Node
    computed: tuple[Value, ...]
    parameters: tuple[Value, ...]
    cotangents: tuple[Value, ...]
    gradients: tuple[Value, ...]
    results: tuple[Value, ...]


def is_grad(node: Node) -> bool:
    return node.op == "grad"


def is_custom(node: Node) -> bool:
    return isinstance(node.attributes, CustomAttributes)


def grad_view(node: Node, operands: Sequence[Value] | None = None) -> GradView:
    """A `grad` by its parts; `operands` if it has others by now."""
    assert is_grad(node), node
    loss, *targets = node.operands if operands is None else operands
    return GradView(node, loss, tuple(targets), node.results)


def custom_view(node: Node) -> CustomView:
    """A `custom` by its parts."""
    assert isinstance(node.attributes, CustomAttributes), node
    count, half, operands = node.attributes.results, len(node.operands) // 2, node.operands
    return CustomView(
        node,
        computed=operands[:count],
        parameters=operands[count:half],
        cotangents=operands[half : half + count],
        gradients=operands[half + count :],
        results=node.results,
    )
