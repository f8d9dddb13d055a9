"""What the body of a kernel means at one point: its instructions as functions, which are made once for a launch.

A launch runs its body at every point of its axes; what does not depend on the point (offsets, element types, which
NumPy function an instruction is) is looked up before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dfc.ir.dims import Dim, Symbol
from dfc.ir.dtypes import DType
from dfc.kernels.body import (
    Accumulated,
    Affine,
    Apply,
    AxisIndex,
    Index,
    Instruction,
    Load,
    Mask,
    Number,
    Philox,
    Reduced,
    Size,
    is_partial,
)
from dfc.kernels.form import Store
from dfc.ops.creation import philox
from tests.support.kernel_scalars import BINARY, UNARY, cast, computing

Values = list[Any]
Point = Sequence[int]
Step = Callable[[Values, Point], Any]
"""The value of an instruction, of those before it and the point."""

Indexing = Callable[[Values, Point], tuple[int, ...]]


class Failed(Exception):
    """A fault site was reached."""

    def __init__(self, site: int) -> None:
        super().__init__(f"fault {site}")
        self.site = site


@dataclass
class PointCall:
    """One launch: concrete axes, operands as arrays, symbols of the kernel."""

    operands: list[Any]
    sizes: dict[Symbol, int]
    extents: list[int]
    accesses: list[str]
    reduced: list[list[Any]] = field(default_factory=list)
    accumulated: Any = None
    offsets: dict[Dim, int] = field(default_factory=dict[Dim, int])
    """Sizes that were evaluated before."""
    steps: dict[int, tuple[Sequence[Instruction], list[Step]]] = field(default_factory=dict)
    """Bodies with their instructions as functions, by the identity of the body."""
    writes: dict[int, tuple[Store, Indexing]] = field(default_factory=dict)

    def offset(self, size: Dim) -> int:
        known = self.offsets.get(size)
        if known is None:
            known = self.offsets[size] = size.evaluate(self.sizes)
        return known

    def body(self, body: Sequence[Instruction], point: Point) -> Values:
        """The values of all instructions."""
        known = self.steps.get(id(body))
        if known is None:
            known = self.steps[id(body)] = (body, [self._step(instruction) for instruction in body])
        values: Values = []
        for step in known[1]:
            values.append(step(values, point))
        return values

    def store(self, store: Store, values: Values, point: Point) -> None:
        known = self.writes.get(id(store))
        array = self.operands[store.operand]
        if known is None:
            assert self.accesses[store.operand] != "read", "a store to a slot that is only read"
            known = self.writes[id(store)] = (store, self._indexing(store.index, array.shape))
        index = known[1](values, point)
        check_inside(index, array.shape)
        value = values[store.value]
        array[index] = array[index] + value if store.combine == "add" else value

    def _step(self, instruction: Instruction) -> Step:
        operation, dtype = instruction.operation, instruction.dtype
        match operation:
            case Load():
                return self._load(operation, dtype)
            case Number():
                number = computing(dtype).type(np.frombuffer(operation.bits, dtype.numpy)[0])
                return lambda _, __: number
            case AxisIndex(axis):
                return lambda _, point: np.int64(point[axis])
            case Size(size):
                extent = np.int64(self.offset(size))
                return lambda _, __: extent
            case Reduced(stage, reduction):
                return lambda _, __: self.reduced[stage][reduction]
            case Accumulated():
                return lambda _, __: self.accumulated
            case Philox(distribution):
                arguments = instruction.arguments
                return lambda values, _: random_number(distribution, dtype, [int(values[a]) for a in arguments])
            case Apply():
                return application(operation, instruction.arguments, dtype)

    def _load(self, load: Load, dtype: DType) -> Step:
        array, kind = self.operands[load.operand], computing(dtype).type
        assert self.accesses[load.operand] != "write", "a load from a slot that is only written"
        indexing, mask = self._indexing(load.index, array.shape), load.mask

        def plain(values: Values, point: Point) -> Any:
            index = indexing(values, point)
            check_inside(index, array.shape)
            return kind(array[index])

        def masked(values: Values, point: Point) -> Any:
            assert mask is not None
            index = unmasked(mask, indexing(values, point), array.shape)
            if index is None:
                return values[mask.otherwise]
            check_inside(index, array.shape)
            return kind(array[index])

        return plain if mask is None else masked

    def _indexing(self, index: Sequence[Index], shape: Sequence[int]) -> Indexing:
        parts = [self._index(one, extent) for one, extent in zip(index, shape, strict=True)]
        return lambda values, point: tuple([part(values, point) for part in parts])

    def _index(self, index: Index, extent: int) -> Callable[[Values, Point], int]:
        if isinstance(index, Affine):
            offset = self.offset(index.offset)
            match index.terms:
                case ():
                    return lambda _, __: offset
                case ((axis, 1),):
                    return lambda _, point: point[axis] + offset
                case terms:
                    return lambda _, point: sum(c * point[axis] for axis, c in terms) + offset
        instruction, fault = index.instruction, index.fault

        def computed(values: Values, _: Point) -> int:
            row = int(values[instruction])
            row += extent if row < 0 else 0
            if not 0 <= row < extent:
                raise Failed(fault)
            return row

        return computed


def check_inside(index: Sequence[int], shape: Sequence[int]) -> None:
    for i, extent in zip(index, shape, strict=True):
        assert 0 <= i < extent, (index, shape)


def unmasked(mask: Mask, index: Sequence[int], shape: Sequence[int]) -> tuple[int, ...] | None:
    """The element that a masked load reads, if it reads one."""
    at = list(index)
    for axis, step in mask.indices:
        if at[axis] % step or not 0 <= at[axis] // step < shape[axis]:
            return None
        at[axis] //= step
    return tuple(at)


def application(operation: Apply, arguments: Sequence[int], dtype: DType) -> Step:
    """A scalar function, of the values with these numbers."""
    name = operation.function
    if name == "cast":
        (only,) = arguments
        return lambda values, _: cast(values[only], dtype)
    if name == "select":
        condition, one, other = arguments
        return lambda values, _: values[one] if values[condition] else values[other]
    kind: Callable[[Any], Any] = np.bool_ if dtype.is_bool else computing(dtype).type
    if name == "fma":
        a, b, c = arguments
        return lambda values, _: kind(np.float64(values[a]) * np.float64(values[b]) + np.float64(values[c]))
    if name in UNARY:
        (only,), unary = arguments, UNARY[name]
        return lambda values, _: kind(unary(values[only]))
    (left, right), binary = arguments, BINARY[name]
    if not is_partial(name, dtype):
        return lambda values, _: kind(binary(values[left], values[right]))

    def partial(values: Values, _: Point) -> Any:
        if values[right] < 0 if name == "pow" else values[right] == 0:
            raise Failed(operation.fault)
        return kind(binary(values[left], values[right]))

    return partial


def random_number(distribution: str, dtype: DType, arguments: list[int]) -> Any:
    element, key0, key1, draw = arguments
    numbers = philox.numbers(distribution, dtype, (element + 1,), (key0, key1), draw)
    return computing(dtype).type(numbers[element])
