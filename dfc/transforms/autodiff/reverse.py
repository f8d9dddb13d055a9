"""The backward pass: cotangents from results to operands, through nodes and through branches (loops: `reverse_loops`).

Works on nodes in an order in which operands come first. `environment` maps values of the forward graph to values that
can be used where the backward nodes go: inside a branch these are copies. Cotangents are kept by forward values.
It recurses only into regions, whose nesting the front end bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.ir import walk
from dfc.ir.dims import ZERO, Dim
from dfc.ir.dtypes import DType
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import flows, if_node, if_view, view
from dfc.ir.rewrite import Cloner
from dfc.ir.types import TensorType
from dfc.ops import registry
from dfc.ops.attributes import PadAttributes
from dfc.ops.builder import Builder
from dfc.ops.constants import uniform_of
from dfc.ops.control.derivatives import custom_view, is_custom
from dfc.ops.effects.effects import is_pure
from dfc.transforms.autodiff.custom import stated
from dfc.transforms.autodiff.expose import exported, zeros

Cotangents = dict[Value, Value]


def carries_gradient(value: Value) -> bool:
    """Whether a value can have a gradient: numbers with a fraction."""
    return isinstance(value.type, TensorType) and (value.tensor.dtype.is_float or value.tensor.dtype.is_complex)


@dataclass(slots=True)
class Collected:
    """A node whose operand `index` gets its share later; its copy in the body, and its cotangent, once it was met."""

    index: int
    copy: Node | None = None
    gradient: Value | None = None


@dataclass(slots=True)
class Reverse:
    """One gradient. `active`: values between targets and loss. `aliases`: the targets, and reads that see the same."""

    active: set[Value]
    aliases: frozenset[Value] = frozenset()
    captures: dict[Block, tuple[Value, ...]] = field(default_factory=dict[Block, tuple[Value, ...]])
    collected: dict[Node, Collected] = field(default_factory=dict[Node, "Collected"])
    """Nodes that give one of their operands nothing yet: what it gets is put together from all iterations of a loop."""

    def mark_iterations(self, node: Node) -> None:
        raise unsupported(node)

    def iterations(
        self, node: Node, cotangents: Cotangents, builder: Builder, environment: Mapping[Value, Value]
    ) -> None:
        """The backward pass through a `for`."""
        del cotangents, builder, environment
        raise unsupported(node)

    def mark(self, nodes: Iterable[Node]) -> None:
        """Extends `active` forward over nodes in program order."""
        for node in nodes:
            if node.op == "if":
                self._mark_branches(node)
            elif node.op == "for":
                self.mark_iterations(node)
            elif is_custom(node):
                if any(v in self.active for v in custom_view(node).parameters):
                    self.active.update(node.results)
            elif self._is_reached(node) and _passes(node):
                self.active.update(v for v in node.results if carries_gradient(v))

    def _mark_branches(self, node: Node) -> None:
        for region in node.regions:
            self.active.update(v for inner in region.nodes for v in inner.results if v in self.aliases)
            self.mark(region.nodes)
        for flow in flows(view(node)):
            self.active.update(flow.result for inside in flow.outputs if inside in self.active)

    def _is_reached(self, node: Node) -> bool:
        if not node.regions:
            return any(v in self.active for v in node.operands)
        inside = (v for region in node.regions for inner in walk.nodes(region) for v in inner.results)
        return any(v in self.active for v in walk.inputs(node)) or any(v in self.aliases for v in inside)

    def run(
        self, nodes: Sequence[Node], cotangents: Cotangents, builder: Builder, environment: Mapping[Value, Value]
    ) -> None:
        """Spreads cotangents from the results of the nodes to their operands, last node first."""
        for node in reversed(nodes):
            known_cotangents = [cotangents.get(v) if v in self.active else None for v in node.results]
            if all(c is None for c in known_cotangents):
                continue
            builder.name, builder.span = f"{node.name}/grad", node.span
            if node.op == "if":
                self._branches(node, cotangents, builder, environment)
            elif node.op == "for":
                self.iterations(node, cotangents, builder, environment)
            elif is_custom(node):
                parameters = custom_view(node).parameters
                self.accumulate(parameters, stated(builder, node, known_cotangents, environment), cotangents, builder)
            elif node.regions:
                raise unsupported(node)
            elif any(v in self.active for v in node.operands):
                self._row(node, known_cotangents, cotangents, builder, environment)

    def _row(
        self,
        node: Node,
        known_cotangents: Sequence[Value | None],
        cotangents: Cotangents,
        builder: Builder,
        environment: Mapping[Value, Value],
    ) -> None:
        """The gradient row of an op."""
        here = _in_environment(node, environment)
        collected = self.collected.get(node)
        operands = list(node.operands)
        if collected is not None:
            collected.copy, collected.gradient = here, _first_cotangent(known_cotangents)
            del operands[collected.index]
        if any(v in self.active for v in operands):
            gradient = registry.record(node.op).gradient
            assert gradient is not None, node
            gradients = list(gradient(builder, here, known_cotangents))
            if collected is not None:
                del gradients[collected.index]
            self.accumulate(operands, gradients, cotangents, builder)

    def accumulate(
        self, values: Sequence[Value], gradients: Sequence[Value | None], cotangents: Cotangents, builder: Builder
    ) -> None:
        for value, cotangent in zip(values, gradients, strict=True):
            if cotangent is not None and value in self.active:
                cotangents[value] = summed(builder, cotangents.get(value), cotangent, value)

    def _branches(
        self, node: Node, cotangents: Cotangents, builder: Builder, environment: Mapping[Value, Value]
    ) -> None:
        """An `if` on the same condition whose branches go back through those of the forward one."""
        required = self.required_of(node)
        if not required:
            return
        regions = [self._branch(node, region, required, cotangents, environment) for region in node.regions]
        condition = if_view(node).condition
        then, otherwise = regions
        back = builder.append(if_node(environment.get(condition, condition), then, otherwise, origin=builder))
        self.accumulate(required, back.results, cotangents, builder)

    def required_of(self, node: Node) -> list[Value]:
        """What the regions give gradients for: active values from outside, and reads of a target inside."""
        required: dict[Value, None] = {}
        for region in node.regions:
            required.update((v, None) for v in self.captured(region) if v in self.active)
            if self.aliases:
                inside = (v for inner in walk.nodes(region) for v in inner.results)
                required.update((v, None) for v in inside if v in self.aliases)
        return list(required)

    def captured(self, region: Block) -> tuple[Value, ...]:
        free = self.captures.get(region)
        if free is None:
            free = self.captures[region] = walk.free_values(region)
        return free

    def _branch(
        self,
        node: Node,
        region: Block,
        required: Sequence[Value],
        outer: Cotangents,
        environment: Mapping[Value, Value],
    ) -> Block:
        """Computes the pure values of the branch again, then goes back through it."""
        block = Block()
        builder = Builder(block, name=f"{node.name}/grad", span=node.span)
        cloner = Cloner(environment, rename="{}/grad/again".format)
        for inside, result in exported(node, region).items():
            if inside.node in region.nodes:
                cloner.values[inside] = environment.get(result, result)
        cloner.inline([inner for inner in region.nodes if is_pure(inner)], block.nodes)
        cotangents: Cotangents = {}
        for inside, result in zip(region.outputs, node.results, strict=True):
            if result in outer and inside in self.active:
                cotangents[inside] = summed(builder, cotangents.get(inside), outer[result], inside)
        self.run(region.nodes, cotangents, builder, cloner.values)
        block.outputs = tuple([cotangents[v] if v in cotangents else zeros(builder, v) for v in required])
        return block


def summed(builder: Builder, total: Value | None, cotangent: Value, value: Value) -> Value:
    """The sum so far and one more cotangent, in the type of the value they belong to."""
    cotangent = builder.reshape(cotangent, value.tensor.shape)
    if total is None:
        return cotangent
    halves = _halves(total, cotangent) or _halves(cotangent, total)
    if halves is not None:
        first, second, axis = halves
        return builder.concat((first, second), axis)
    return builder.apply("add", total, cotangent)


def _halves(first: Value, second: Value) -> tuple[Value, Value, int] | None:
    """Two values that fill up a third one along an axis: what a value gets from two slices that make it up."""
    before, after = _padded(first), _padded(second)
    if before is None or after is None or before[1] != after[1]:
        return None
    (upper, axis, low, high), (lower, _, start, end) = before, after
    fits = low == ZERO and end == ZERO and high == lower.tensor.shape[axis] and start == upper.tensor.shape[axis]
    return (upper, lower, axis) if fits else None


def _padded(value: Value) -> tuple[Value, int, Dim, Dim] | None:
    """What zeros are put around along one axis: the axis, and how many stand before and behind it."""
    node = value.node
    if node is None or not isinstance(node.attributes, PadAttributes) or any(node.attributes.interior):
        return None
    fill = uniform_of(node.operands[1])
    pairs = list(zip(node.attributes.low, node.attributes.high, strict=True))
    axes = [axis for axis, (low, high) in enumerate(pairs) if low != ZERO or high != ZERO]
    if fill is None or fill != 0 or len(axes) != 1:
        return None
    return node.operands[0], axes[0], *pairs[axes[0]]


def _passes(node: Node) -> bool:
    """Whether an active operand makes the results active; loops do, and are refused when the backward pass meets
    them."""
    return bool(node.regions) or registry.record(node.op).gradient is not None


def _in_environment(node: Node, environment: Mapping[Value, Value]) -> Node:
    """The node over values that can be used where the backward nodes go: itself, or what rows may ask of a copy."""
    operands = tuple(environment.get(v, v) for v in node.operands)
    results = tuple(environment.get(v, v) for v in node.results)
    if operands == node.operands and results == node.results:
        return node
    types = [v.type for v in node.results]
    seen = Node(node.op, operands, types, attributes=node.attributes, name=node.name, span=node.span)
    seen.results = results
    return seen


def _first_cotangent(cotangents: Sequence[Value | None]) -> Value:
    (only,) = cotangents
    assert only is not None
    return only


def unsupported(node: Node) -> CompileError:
    """The last word: `split_iterations` leaves no such loop on a path that it can see."""
    message = error(
        NOT_SUPPORTED_YET,
        "gradients through this loop are not supported yet",
        node.span,
        "it has effects, and only the run knows how many iterations it has",
        helps=("give the loop a number of iterations that is a size: `for i in 0..N`",),
    )
    return CompileError([message])


def one(builder: Builder, like: Value) -> Value:
    dtype = like.tensor.dtype
    assert isinstance(dtype, DType)
    return builder.constant(1, dtype)
