"""Bodies from inline nodes: the instruction for the element of a value at a point of the kernel's axes.

Iterative, so that an item of any depth is emitted without recursion; equal (value, point) pairs are emitted once.
"""

from __future__ import annotations

from collections.abc import Callable

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
from dfc.lower.fuse.inline import inputs_at, picked
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView
from dfc.ops import registry
from dfc.ops.attributes import (
    ConstantAttributes,
    DimAttributes,
    DrawAttributes,
    PadAttributes,
    RandomAttributes,
    RedrawAttributes,
)
from dfc.ops.creation.philox import stream_key
from dfc.ops.lowering.forms import Elementwise
from dfc.ops.lowering.index_maps import Point, row_major, scaled, shifted

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
        self._opened: set[Key] = set()

    def emit(self, value: Value, point: Point, *, inside: bool = False) -> int:
        """The instruction of an element; with `inside` the value itself is computed even if it has memory."""
        pending: list[Key] = [(value, point)]
        if inside:
            self._opened.add((value, point))
        while pending:
            key = pending[-1]
            if key not in self._known:
                waiting = self._waiting(key)
                if waiting:
                    pending.extend(reversed(waiting))
                    continue
                self._known[key] = self._finish(*key)
            pending.pop()
        return self._known[value, point]

    def _waiting(self, key: Key) -> list[Key]:
        """What must be emitted before the element; a leaf is emitted at once."""
        if key in self._opened:
            return [below for below in self._below(key) if below not in self._known]
        value, point = key
        resolved = self._resolve(self, value, point)
        if resolved is not None:
            self._known[key] = resolved
            return []
        self._opened.add(key)
        return [below for below in self._below(key) if below not in self._known]

    def _below(self, key: Key) -> list[Key]:
        value, point = key
        assert value.node is not None, value
        if value.node.op == "draw":
            return []
        return [(v, p) for v, p in inputs_at(value.node, point) if p is not None]

    def _finish(self, value: Value, point: Point) -> int:
        known = self._known.get((value, point))
        if known is not None:
            return known
        node = value.node
        assert node is not None
        match node.op:
            case "transpose" | "slice" | "reverse" | "reshape" | "broadcast" | "windows":
                return self._known[self._below((value, point))[0]]
            case "constant":
                return self._constant(node)
            case "dim":
                assert isinstance(node.attributes, DimAttributes)
                return self.body.size(node.attributes.size)
            case "iota":
                return self.body.cast(self.index(point[0]), node.result.tensor.machine)
            case "pad":
                return self._pad(node, point)
            case "gather" | "pick":
                return self._gather(node, point)
            case "random" | "draw" | "redraw":
                return self._random(node, point)
            case _:
                return self._apply(node, [self._known[below] for below in self._below((value, point))])

    def _apply(self, node: Node, arguments: list[int]) -> int:
        lowering = registry.record(node.op).lowering
        assert isinstance(lowering, Elementwise), node
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

    def _pad(self, node: Node, point: Point) -> int:
        attributes = node.attributes
        assert isinstance(attributes, PadAttributes)
        fill = self._known[node.operands[1], ()]
        index = tuple(shifted(i, -low) for i, low in zip(point, attributes.low, strict=True))
        padded = [
            (axis, interior + 1)
            for axis, (low, high, interior) in enumerate(
                zip(attributes.low, attributes.high, attributes.interior, strict=True)
            )
            if low != ZERO or high != ZERO or interior
        ]
        view = self.scope.view_of(node.operands[0])
        assert view is not None, node
        return self.load(view, index, Mask(tuple(padded), fill) if padded else None)

    def _gather(self, node: Node, point: Point) -> int:
        view = self.scope.view_of(node.operands[0])
        assert view is not None, node
        rest = iter(point)
        index: list[Index] = []
        rows = {axis: (ids, at) for axis, ids, at in picked(node, point)}
        for axis in range(len(view.shape)):
            if axis not in rows:
                index.append(next(rest))
                continue
            ids, at = rows[axis]
            for _ in at:
                next(rest)
            site = self.scope.fault(node, "index", OUT_OF_RANGE, node.span, axis)
            index.append(Computed(self._known[ids, at], site))
        return self.load(view, tuple(index))

    def _random(self, node: Node, point: Point) -> int:
        attributes = node.attributes
        kind = node.result.tensor
        if isinstance(attributes, RandomAttributes):
            # In memory, not in the kernel: else every weight's first value would be a kernel of its own.
            state = self.scope.words((*stream_key(attributes.seed, attributes.stream), 0), f"{node.name}/key")
        else:
            assert isinstance(attributes, DrawAttributes | RedrawAttributes)
            drawn = self.scope.view_of(self._draws[node] if node.op == "draw" else node.operands[0])
            assert drawn is not None
            state = drawn
        key = [self.load(state, (Affine((), dim(word)),)) for word in range(3)]
        element = self.index(Affine()) if not point else self._element(kind.shape, point)
        return self.body.append(Philox(attributes.distribution), (element, *key), kind.machine)

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
