"""The way from variables to the losses of an entry: what a gradient is computed from.

Assumes a graph that autodiff has not seen. Guarantees that each variable read on the way is read as it is when the
entry begins; anything else is a `CompileError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, Diagnostic, error
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.model import Replicate
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Node, Resource, ResourceKind, Value
from dfc.ops.attributes import AssignAttributes, ResourceAttributes
from dfc.transforms.scalar.matching import GRADIENT_OPS, producer


@dataclass(frozen=True, slots=True)
class Cone:
    """`nodes` are those of the entry that losses depend on, and the gradients themselves; `gradients` just these;
    `variables` are the trained ones that are read on the way, and those that gradients are taken of."""

    nodes: frozenset[Node]
    gradients: tuple[Node, ...]
    variables: tuple[str, ...]


def gradient_cone(entry: Entry, resources: Mapping[str, Resource], statement: Replicate) -> Cone:
    """What the gradients of an entry are computed from."""
    gradients = tuple(node for node in entry.block.nodes if node.op in GRADIENT_OPS)
    inner = next((n for n in walk.nodes(entry.block) if n.op in GRADIENT_OPS and n not in gradients), None)
    if inner is not None:
        title = f"a gradient in a loop or a branch is not supported in the mode `{statement.mode}`"
        raise CompileError([error(NOT_SUPPORTED_YET, title, inner.span, secondary=[_asked(statement)])])
    way = frozenset(_computed_from([value for node in gradients for value in node.operands]))
    read = {_resource(node) for node in way for node in _with_regions(node) if node.op == "read"}
    targets = {_resource(node) for value in _targets(gradients) if (node := producer(value, "read")) is not None}
    variables = [
        name
        for name, resource in resources.items()
        if resource.kind is ResourceKind.VARIABLE and (name in targets or (name in read and resource.trained))
    ]
    if not variables:
        title = f"`{entry.name}` takes no gradient of a variable, which the mode `{statement.mode}` is about"
        span = statement.setting_span("mode")
        raise CompileError([error("E0808", title, span, secondary=[(entry.span, "declared here")])])
    _check_order(entry.block, way, frozenset(variables), statement)
    return Cone(way | frozenset(gradients), gradients, tuple(variables))


def _computed_from(values: Iterable[Value]) -> set[Node]:
    """The nodes that values are computed from, whatever effects come before these."""
    computed: set[Node] = set()
    pending = [value.node for value in values]
    while pending:
        node = pending.pop()
        if node is not None and node not in computed:
            computed.add(node)
            pending += [value.node for value in walk.inputs(node) if not value.is_token]
    return computed


def _targets(gradients: tuple[Node, ...]) -> Iterator[Value]:
    for node in gradients:
        yield from node.operands[1:]


def _with_regions(node: Node) -> Iterator[Node]:
    yield node
    for region in node.regions:
        yield from walk.nodes(region)


def _resource(node: Node) -> str:
    assert isinstance(node.attributes, ResourceAttributes)
    return node.attributes.resource


def _check_order(block: Block, way: frozenset[Node], variables: frozenset[str], statement: Replicate) -> None:
    """Refuses an update before a read on the way to a loss: there would be several versions in one step."""
    assigned: dict[str, Node] = {}
    for node in block.nodes:
        for each in _with_regions(node):
            if isinstance(each.attributes, AssignAttributes) and each.attributes.resource in variables:
                assigned.setdefault(each.attributes.resource, each)
                if node in way and node is not each:
                    raise CompileError([_behind_update(each, each, statement)])
            elif node in way and each.op == "read" and _resource(each) in assigned:
                raise CompileError([_behind_update(each, assigned[_resource(each)], statement)])


def _behind_update(read: Node, update: Node, statement: Replicate) -> Diagnostic:
    assert isinstance(update.attributes, AssignAttributes)
    name = update.attributes.resource
    title = f"a loss behind an update of `{name}` is not supported in the mode `{statement.mode}`"
    second = [(update.span, "updated here"), _asked(statement)]
    return error(NOT_SUPPORTED_YET, title, read.span, secondary=second, helps=["make an entry of each update"])


def _asked(statement: Replicate) -> tuple[Span, str]:
    return statement.setting_span("mode"), "asked for here"
