"""autodiff: replaces `grad` and `jacobian` nodes by the nodes that compute them.

    let y: f32 = square(x)                       let y: f32 = square(x)
    let g: f32 = graph.grad(y, x)         ->     let y_grad: f32 = one * (x * two)

The gradient rows of the op records, last node first, along paths between targets and loss only; what a value gets from
several users is added. Nodes are expanded in program order, so the gradient of a gradient finds plain nodes. Reads that
see the same version of a variable are one target. Nodes of one block that differentiate one loss for variables share
one backward pass, at the first of them: thousands of parameters that are updated one by one take no longer than a list
of them. Loops of unknown length are split into blocks before
(`split_iterations`). A target without a path gets zeros: the front end has reported it already, where the program
is as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.ir import walk
from dfc.ir.dims import ONE
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import hand_over, name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild
from dfc.ops.builder import Builder
from dfc.ops.control.derivatives import GradView, grad_view, is_grad
from dfc.ops.control.earlier_iterations import ambiguous_gradients
from dfc.ops.sizes.equality import sizes_compared
from dfc.transforms.autodiff.expose import expose_block, zeros
from dfc.transforms.autodiff.nesting import Nesting, nesting
from dfc.transforms.autodiff.reverse import Cotangents, carries_gradient, one, summed
from dfc.transforms.autodiff.reverse_loops import LoopReverse
from dfc.transforms.autodiff.split_iterations import split_block
from dfc.transforms.scalar.matching import GRADIENT_OPS, ancestors, producer
from dfc.transforms.scalar.prune import prune_block
from dfc.transforms.subgraph.versions import Versions, read_versions

NAME = "autodiff"
MAX_ROWS = 1024


def autodiff(graph: Graph) -> Graph:
    shared = {entry.block for entry in walk.entries(graph) if entry.concurrent}
    with sizes_compared():
        return map_blocks(graph, lambda block: autodiff_block(block, shared=block in shared))


def autodiff_block(block: Block, *, shared: bool = False) -> Block:
    """`shared`: other calls may change state while this one runs."""
    if not any(node.op in GRADIENT_OPS for node in walk.nodes(block)):
        return block
    if ambiguous := ambiguous_gradients(block):
        raise CompileError(ambiguous)
    exposed = expose_block(split_block(block, shared=shared))
    expanded = rebuild(exposed, _Expand(read_versions(exposed)))
    return name_nodes(prune_block(expanded), block)


@dataclass(slots=True)
class _Scope:
    """One block on its way: for which variables a loss is differentiated in it, how its gradients are nested, and the
    passes that were made."""

    reads: Mapping[Value, Sequence[Value]]
    nesting: Nesting
    passes: dict[Value, tuple[_Plan, Cotangents]] = field(default_factory=dict["Value", "tuple[_Plan, Cotangents]"])


class _Expand(Pass):
    """Expands gradient nodes one after the other."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._scopes: list[_Scope] = []

    def enter(self, block: Block) -> None:
        reads: dict[Value, list[Value]] = {}
        for node in block.nodes:
            if is_grad(node):
                request = grad_view(node)
                reads.setdefault(request.loss, []).extend(v for v in request.targets if producer(v, "read"))
        self._scopes.append(_Scope(reads, nesting(block)))

    def leave(self, block: Block) -> None:
        self._scopes.pop()

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        start = len(site.output)
        if is_grad(site.node):
            results = self._gradients(site, grad_view(site.node, site.operands))
            self._scopes[-1].nesting.add(site.node, len(site.output) - start)
        elif site.node.op == "jacobian":
            results = [self._jacobian(site, *site.operands)]
        else:
            return None
        hand_over(site.node.results, results, site.output[start:])
        return results

    def _gradients(self, site: RewriteSite, request: GradView) -> Sequence[Value]:
        builder, scope = _builder(site), self._scopes[-1]
        loss, targets = request.loss, request.targets
        known = scope.passes.get(loss)
        if known is None or not all(map(known[0].covers, targets)):
            plan = self._plan(loss, [*targets, *scope.reads.get(grad_view(site.node).loss, ())])
            known = scope.passes[loss] = plan, plan.back({loss: one(builder, loss)}, builder)
        plan, cotangents = known
        builder.name, builder.span = f"{site.node.name}/grad", site.node.span
        return [plan.total(cotangents, target, builder) for target in targets]

    def _jacobian(self, site: RewriteSite, y: Value, x: Value) -> Value:
        """One backward pass for each element of y, stacked."""
        count = y.tensor.elements.constant
        if count is None or count > MAX_ROWS:
            raise _too_many_rows(site.node, y)
        builder = _builder(site)
        plan = self._plan(y, [x])
        rows: list[Value] = []
        for index in range(count):
            seed = builder.constant(_one_hot(y, index), y.tensor.dtype)
            cotangents = plan.back({y: seed}, builder)
            builder.name, builder.span = f"{site.node.name}/grad", site.node.span
            rows.append(builder.reshape(plan.total(cotangents, x, builder), (ONE, *x.tensor.shape)))
        jacobian_shape = (*y.tensor.shape, *x.tensor.shape)
        if not rows:
            zero = builder.constant(0, x.tensor.dtype)
            return builder.broadcast(zero, jacobian_shape)
        stacked = builder.concat(rows, 0) if len(rows) > 1 else rows[0]
        return builder.reshape(stacked, jacobian_shape)

    def _plan(self, loss: Value, targets: Sequence[Value]) -> _Plan:
        return _Plan(ancestors([loss]), targets, self._versions)


class _Plan:
    """The paths between some targets and a loss, and the backward pass along them."""

    def __init__(self, nodes: Sequence[Node], targets: Sequence[Value], versions: Versions) -> None:
        self._nodes, self._versions = nodes, versions
        reads = _reads_by_version(nodes, versions)
        self._aliases = {key: reads.get(key, ()) for key in map(self._key, targets)}
        differentiated = {*targets, *(value for values in self._aliases.values() for value in values)}
        aliases = frozenset(value for value in differentiated if carries_gradient(value))
        self._reverse = LoopReverse(set(aliases), aliases)
        self._reverse.mark(nodes)

    def _key(self, target: Value) -> int | Value:
        """Equal for reads that see the same version of the same variable."""
        read = producer(target, "read")
        return target if read is None else self._versions[read.name]

    def covers(self, target: Value) -> bool:
        """Whether a gradient for this target was asked for."""
        return self._key(target) in self._aliases

    def back(self, cotangents: Cotangents, builder: Builder) -> Cotangents:
        self._reverse.run(self._nodes, cotangents, builder, {})
        return cotangents

    def total(self, cotangents: Mapping[Value, Value], target: Value, builder: Builder) -> Value:
        """What a target gets, over all reads that are the same as it: its own first."""
        total: Value | None = None
        for value in dict.fromkeys((target, *self._aliases[self._key(target)])):
            if value in cotangents:
                total = summed(builder, total, cotangents[value], target)
        return total if total is not None else zeros(builder, target)


def _reads_by_version(nodes: Sequence[Node], versions: Versions) -> Mapping[int | Value, Sequence[Value]]:
    """The reads among the nodes, or inside them, by the version that they see."""
    reads: dict[int | Value, list[Value]] = {}
    for node in nodes:
        for each in (node, *(inner for region in node.regions for inner in walk.nodes(region))):
            if each.op == "read" and each.name in versions:
                reads.setdefault(versions[each.name], []).append(each.result)
    return reads


def _builder(site: RewriteSite) -> Builder:
    block = Block()
    block.nodes = site.output
    return Builder(block, name=f"{site.node.name}/grad", span=site.node.span)


def _one_hot(like: Value, index: int) -> object:
    shape = [d.constant for d in like.tensor.shape]
    array = np.zeros([n for n in shape if n is not None])
    array.reshape(-1)[index] = 1
    return array


def _too_many_rows(node: Node, y: Value) -> CompileError:
    message = error(
        NOT_SUPPORTED_YET,
        "a jacobian needs a number of rows that is known and small",
        node.span,
        f"of {y.type}, which has {y.tensor.elements} elements",
        notes=(f"one row is computed for each element, at most {MAX_ROWS}",),
    )
    return CompileError([message])
