"""Bodies from inline nodes: the instruction for the element of a value at a point of the kernel's axes.

Iterative, so that an item of any depth is emitted without recursion; equal (value, point) pairs are emitted once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.ir.attributes import Literal
from dfc.ir.dims import ZERO, Dim, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Node, Value
from dfc.kernels.body import (
    Affine,
    Apply,
    BodyBuilder,
    Computed,
    Index,
    Instruction,
    Load,
    Mask,
    Number,
    Philox,
    is_partial,
)
from dfc.lower.fuse.emit.operands import Slots
from dfc.lower.fuse.inline import inputs_at
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView
from dfc.ops.attributes import (
    ConstantAttributes,
    DrawAttributes,
)
from dfc.ops.lowering.forms import Elementwise, Generator, MaskedView, Pick, Picked, RandomNumbers, Reshape, View
from dfc.ops.lowering.index_maps import Point, composed, row_major, scaled
from dfc.ops.registry import lowering_of

Key = tuple[Value, Point]
Resolve = Callable[["Expressions", Value, Point], int | None]

OUT_OF_RANGE = "index out of range"
NO_VALUE = {"power": "an integer to a negative power", "division": "integer division by zero"}


class Expressions:
    """One body. `resolve` gives the instruction of values that are no inline nodes here (loads, folds), else None."""

    def __init__(self, scope: Scope, slots: Slots, draws: dict[Node, Value], resolve: Resolve) -> None:
        self.scope = scope
        self.slots = slots
        self.body = BodyBuilder()
        self._draws = draws
        self._resolve = resolve
        self._known: dict[Key, int] = {}
        self._opened: dict[Key, list[Key]] = {}  # with what each is computed from

    def emit(self, value: Value, point: Point, *, inside: bool = False) -> int:
        """The instruction of an element; with `inside` the value itself is computed even if it has memory."""
        known, opened, first = self._known, self._opened, (value, point)
        if inside and first not in opened:
            opened[first] = self._below(value, point)
        pending: list[Key] = [first]
        while pending:
            key = pending[-1]
            if key not in known:
                below = opened.get(key)
                if below is None:
                    resolved = self._resolve(self, *key)
                    if resolved is not None:  # a leaf
                        known[key] = resolved
                        pending.pop()
                        continue
                    below = opened[key] = self._below(*key)
                waiting = [one for one in below if one not in known]
                if waiting:
                    pending.extend(reversed(waiting))
                    continue
                known[key] = self._finish(*key, below)
            pending.pop()
        return known[first]

    def _below(self, value: Value, point: Point) -> list[Key]:
        """What must be emitted before an element that is computed here."""
        assert value.node is not None, value
        if value.node.op == "draw":
            return []
        return [(v, p) for v, p in inputs_at(value.node, point) if p is not None]

    def _finish(self, value: Value, point: Point, below: Sequence[Key]) -> int:
        node = value.node
        assert node is not None
        lowering = lowering_of(node)
        match lowering:
            case Elementwise():
                return self._apply(node, lowering, [self._known[each] for each in below])
            case View() | Reshape():
                return self._known[below[0]]
            case MaskedView():
                return self._masked(node, lowering, point)
            case Pick():
                return self._pick(node, lowering, point)
            case Generator():
                return lowering.emit(self.body, [self.index(index) for index in point], node)
            case RandomNumbers():
                return self._random(node, lowering, point)
            case _ if isinstance(node.attributes, DrawAttributes):
                return self._numbers(node, self._draws[node], node.attributes.distribution, point)
            case _:
                return self._constant(node)

    def _apply(self, node: Node, lowering: Elementwise, arguments: list[int]) -> int:
        before = len(self.body.instructions)
        result = lowering.emit(self.body, arguments, node)
        self._add_faults(node, before)
        return result

    def _add_faults(self, node: Node, first: int) -> None:
        """Gives a fault site to each instruction that was appended and may fail."""
        for position in range(first, len(self.body.instructions)):
            instruction = self.body.instructions[position]
            operation = instruction.operation
            if isinstance(operation, Apply) and operation.fault < 0 and _may_fail(self.body, instruction):
                kind = "power" if operation.function == "pow" else "division"
                site = self.scope.fault(node, kind, NO_VALUE[kind], node.span)
                changed = Apply(operation.function, site)
                self.body.instructions[position] = Instruction(changed, instruction.arguments, instruction.dtype)

    def _constant(self, node: Node) -> int:
        attributes = node.attributes
        assert isinstance(attributes, ConstantAttributes)
        return self.body.append(Number(_first_bytes(attributes.value)), (), node.result.tensor.machine)

    def index(self, index: Affine) -> int:
        """An affine index as an i64 value."""
        total: int | None = None
        for axis, coefficient in index.terms:
            term = self.body.axis(axis)
            if coefficient != 1:
                term = self.body.apply("mul", term, self.body.number(coefficient, I64))
            total = term if total is None else self.body.apply("add", total, term)
        if total is None:
            return self.body.size(index.offset)
        return total if index.offset == ZERO else self.body.apply("add", total, self.body.size(index.offset))

    def load(self, view: BufferView, index: tuple[Index, ...], mask: Mask | None = None) -> int:
        return self.body.append(Load(self.slots.read(view), index, mask), (), view.dtype)

    def _masked(self, node: Node, lowering: MaskedView, point: Point) -> int:
        view = self.scope.view_of(node.operands[0])
        assert view is not None, node
        steps = tuple(lowering.steps(node))
        mask = Mask(steps, self._known[node.operands[1], ()]) if steps else None
        return self.load(view, composed(lowering.index_map(node), point), mask)

    def _pick(self, node: Node, lowering: Pick, point: Point) -> int:
        view = self.scope.view_of(node.operands[0])
        assert view is not None, node
        where: list[Index] = []
        for axis, index in enumerate(lowering.index_map(node)):
            if isinstance(index, Picked):
                site = self.scope.fault(node, "index", OUT_OF_RANGE, node.span, axis)
                number = self._known[node.operands[index.operand], composed(index.point, point)]
                where.append(Computed(number, site))
            else:
                where += composed((index,), point)
        return self.load(view, tuple(where))

    def _random(self, node: Node, lowering: RandomNumbers, point: Point) -> int:
        if lowering.key is None:
            return self._numbers(node, node.operands[0], lowering.distribution(node), point)
        # In memory, not in the kernel: else every weight's first value would be a kernel of its own.
        state = self.scope.words(lowering.key(node), f"{node.name}/key")
        return self._philox(node, state, lowering.distribution(node), point)

    def _numbers(self, node: Node, state: Value, distribution: str, point: Point) -> int:
        view = self.scope.view_of(state)
        assert view is not None, node
        return self._philox(node, view, distribution, point)

    def _philox(self, node: Node, state: BufferView, distribution: str, point: Point) -> int:
        kind = node.result.tensor
        key = [self.load(state, (Affine((), dim(word)),)) for word in range(3)]
        element = self.index(Affine()) if not point else self._element(kind.shape, point)
        return self.body.append(Philox(distribution), (element, *key), kind.machine)

    def _element(self, shape: tuple[Dim, ...], point: Point) -> int:
        """The row-major number of an element."""
        total: int | None = None
        for index, stride in zip(point, row_major(shape), strict=True):
            constant = stride.constant
            if constant is not None:
                term = self.index(scaled(index, constant))
            else:
                term = self.body.apply("mul", self.index(index), self.body.size(stride))
            total = term if total is None else self.body.apply("add", total, term)
        assert total is not None
        return total


def _may_fail(body: BodyBuilder, instruction: Instruction) -> bool:
    """A constant exponent that is not negative never does."""
    operation = instruction.operation
    if not isinstance(operation, Apply) or not is_partial(operation.function, instruction.dtype):
        return False
    second = body.instructions[instruction.arguments[1]].operation
    if operation.function == "pow" and isinstance(second, Number):
        return int.from_bytes(second.bits, "little", signed=True) < 0
    return True


def _first_bytes(literal: Literal) -> bytes:
    return literal.array.tobytes()[: literal.array.itemsize]
