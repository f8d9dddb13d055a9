"""Blocks of a factor that is read through an index map, packed for the matrix product: windows of an image, say.

    windows of x, [B * Y * X, R * S * C]    ->    rows row0 .. row1, columns k0 .. k1 as a dense block

One axis of the factor is packed in runs: stretches of its innermost sub-axis, which are next to each other in the block
and evenly spaced in memory. What is outside of the buffer is found once for each run, which then has zeros at its ends
and elements between; only a run along zeros between elements asks at each point. Narrow elements are widened.

Assumes splits of the two axes alone. Guarantees that nothing outside of the buffer is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim
from dfc.kernels.access import Bound
from dfc.kernels.body import Affine
from dfc.kernels.contractions import Product
from dfc.kernels.operand_maps import OperandMap
from dfc_target_cpu.elementwise.loops import numbered, vector_loop
from dfc_target_cpu.elementwise.types import memory_type
from dfc_target_cpu.entries.frames import FrameFunction, Lowering
from dfc_target_cpu.llvm.text import Parameter, Value
from dfc_target_cpu.llvm.values import TRUE, byte_size, i64, vector_type, zero

_SHORT = 8
"""Runs of so few elements that it pays to pack along the other axis, if those are longer."""
_BLOCK = (
    Parameter("ptr", "target"),
    Parameter("i64", "stride"),
    *(Parameter("i64", name) for name in ("line0", "lines", "along0", "along")),
)


@dataclass(frozen=True, slots=True)
class PackedAxes:
    """`along` is the axis whose neighbours are neighbours in the block; `across` the other one of the factor."""

    across: int
    along: int


def packed_axes(one: OperandMap, row: int, column: int) -> PackedAxes:
    """Along the axis with the longer runs of neighbours in memory; in doubt along columns."""
    by_column, by_row = _run(one, column), _run(one, row)
    return PackedAxes(column, row) if by_row > by_column else PackedAxes(row, column)


def _run(one: OperandMap, axis: int) -> tuple[int, int]:
    """How well the runs along an axis can be packed: whether they lie together in memory and are long; their length."""
    last, first = one.parts(axis)[-1], len(one.access.coefficients) - len(one.sub_axes)
    extent = one.sub_axes[last - first].extent if last >= first else None
    length = _SHORT * _SHORT if extent is None or extent.constant is None else extent.constant
    together = one.access.coefficients[last].constant == 1
    return 2 * (length >= _SHORT) + together, length


def pack_function(lowering: Lowering, p: Product, one: OperandMap, axes: PackedAxes, hint: str) -> str:
    """`void (context, frame, target, stride, line0, lines, along0, along, batch index..)`: the name of what writes
    `lines` lines, `stride` elements apart, of `along` elements each."""
    return _Pack(lowering, p, one, axes, hint).build()


class _Pack(FrameFunction):
    def __init__(self, lowering: Lowering, p: Product, one: OperandMap, axes: PackedAxes, hint: str) -> None:
        batch = tuple(Parameter("i64", f"batch{axis}") for axis in range(p.kernel.m))
        super().__init__(lowering, p.kernel, hint, (*_BLOCK, *batch))
        self.p, self.one, self.access = p, one, one.access
        self.across, self.along = one.parts(axes.across), one.parts(axes.along)
        self.batch = list(enumerate(self.f.arguments[2 + len(_BLOCK) :]))
        self.dtype = p.kernel.operands[self.access.operand].dtype
        self.raw, self.element = memory_type(self.dtype), p.element
        self.lanes = lowering.machine.lanes(8 * byte_size(self.element))

    def value(self, formula: Dim) -> Value:
        return self.dims.value(formula)

    def extent(self, number: int) -> Value:
        rank = len(self.p.kernel.axes)
        return self.value(
            self.p.kernel.axes[number].extent if number < rank else self.one.sub_axes[number - rank].extent
        )

    def build(self) -> str:
        f, arg = self.f, self.f.argument
        self.memory = self.site().pointers[self.access.operand]
        start = self._moved(_Position(self.value(self.access.offset), self._first_bounds()), self.batch)
        with numbered(f, arg("line0"), f.add(arg("line0"), arg("lines")), list(map(self.extent, self.across))) as (
            number,
            indices,
        ):
            line = f.mul(f.sub(number, arg("line0")), arg("stride"))
            self._line(
                self._moved(start, zip(self.across, indices, strict=True)), f.gep(self.element, arg("target"), line)
            )
        return self.finish()

    def _first_bounds(self) -> list[Value]:
        return [self.value(bound.affine.offset) for bound in self.access.bounds]

    def _moved(self, start: _Position, by: Iterable[tuple[int, Value]]) -> _Position:
        """The place after steps along some axes and sub-axes."""
        f, offset, bounds = self.f, start.offset, list(start.bounds)
        for number, index in by:
            coefficient = self.access.coefficients[number]
            if coefficient != ZERO:
                offset = f.add(offset, f.mul(index, self.value(coefficient)))
            for position, bound in enumerate(self.access.bounds):
                factor = _factor(bound.affine, number)
                if factor:
                    bounds[position] = f.add(bounds[position], f.mul(index, i64(factor)))
        return _Position(offset, bounds)

    def _line(self, position: _Position, target: Value) -> None:
        """A line of the block, run by run. `target` is where it begins."""
        f, arg = self.f, self.f.argument
        first, end = arg("along0"), f.add(arg("along0"), arg("along"))
        *outer, last = self.along
        if not outer:
            self._run(position, f.gep(self.element, target, f.sub(i64(0), first)), first, end)
            return
        length = f.maximum(self.extent(last), i64(1))
        runs = f.udiv(first, length), f.udiv(f.add(end, f.sub(length, i64(1))), length)
        with numbered(f, *runs, list(map(self.extent, outer))) as (number, indices):
            begin = f.mul(number, length)
            low, high = f.maximum(f.sub(first, begin), i64(0)), f.minimum(f.sub(end, begin), length)
            into = f.gep(self.element, target, f.sub(begin, first))
            self._run(self._moved(position, zip(outer, indices, strict=True)), into, low, high)

    # --- runs

    def _run(self, position: _Position, target: Value, low: Value, high: Value) -> None:
        """Elements `low` to `high` of the innermost sub-axis, each at its number behind `target`."""
        f, last = self.f, self.along[-1]
        bounds = self.access.bounds
        steps = [_factor(bound.affine, last) for bound in bounds]
        if any(step and (step < 0 or bound.interior > 1) for step, bound in zip(steps, bounds, strict=True)):
            with f.counted_loop(low, high) as loop:
                value = self._element(self._moved(position, [(last, loop.index)]))
                f.store(value, f.gep(self.element, target, loop.index))
            return
        valid, begin, end = TRUE, low, high
        for at, step, bound in zip(position.bounds, steps, bounds, strict=True):
            if not step:
                valid = f.bit_and(valid, self._is_inside(at, bound))
                continue
            before, behind = f.sub(i64(0), at), f.sub(self.value(bound.extent), at)
            begin = f.maximum(begin, self._steps(before, step))
            end = f.minimum(end, self._steps(behind, step))
        if bounds:
            begin = f.select(valid, f.minimum(begin, high), high)
            end = f.maximum(end, begin)
            self._zeros(target, low, begin)
            self._copy(self._address(position), target, begin, end)
            self._zeros(target, end, high)
        else:
            self._copy(self._address(position), target, low, high)

    def _steps(self, distance: Value, step: int) -> Value:
        """How many steps it takes to go at least so far."""
        f = self.f
        far = f.maximum(distance, i64(0))
        return far if step == 1 else f.udiv(f.add(far, i64(step - 1)), i64(step))

    def _is_inside(self, at: Value, bound: Bound) -> Value:
        f = self.f
        if bound.interior == 1:
            return f.icmp("ult", at, self.value(bound.extent))
        whole = f.icmp("eq", f.srem(at, i64(bound.interior)), i64(0))
        index = f.sdiv(at, i64(bound.interior))
        return f.bit_and(whole, f.bit_and(f.icmp("sge", at, i64(0)), f.icmp("slt", index, self.value(bound.extent))))

    def _address(self, position: _Position) -> Value:
        """Where element 0 of a run lies; zeros between elements are no steps in memory."""
        f, offset = self.f, position.offset
        for lookup in self.access.lookups:
            at = next(a for a, b in zip(position.bounds, self.access.bounds, strict=True) if b.affine == lookup.affine)
            offset = f.add(offset, f.mul(f.sdiv(at, i64(lookup.interior)), self.value(lookup.stride)))
        return f.gep(self.raw, self.memory, offset)

    def _element(self, position: _Position) -> Value:
        """A single element, or zero."""
        inside = [self._is_inside(at, bound) for at, bound in zip(position.bounds, self.access.bounds, strict=True)]
        valid = reduce(self.f.bit_and, inside)

        def load() -> Value:
            return self._widened(self.f.load(self.raw, self._address(position)))

        return self.f.choose(valid, load, lambda: zero(self.element))

    def _widened(self, raw: Value) -> Value:
        return self.lowering.functions.widen(self.f, raw, self.dtype)

    def _copy(self, source: Value, target: Value, begin: Value, end: Value) -> None:
        f, step = self.f, self.access.coefficients[self.along[-1]]
        if step.constant != 1:
            spacing = self.value(step)
            with f.counted_loop(begin, end) as loop:
                raw = f.load(self.raw, f.gep(self.raw, source, f.mul(loop.index, spacing)))
                f.store(self._widened(raw), f.gep(self.element, target, loop.index))
            return
        kind = vector_type(self.lanes, self.raw)

        def emit(index: Value, mask: Value | None, _: Value) -> None:
            pointer, to = f.gep(self.raw, source, index), f.gep(self.element, target, index)
            if mask is None:
                f.store(self._widened(f.load(kind, pointer)), to)
            else:
                f.masked_store(self._widened(f.masked_load(kind, pointer, mask, zero(kind))), to, mask)

        vector_loop(f, begin, end, self.lanes, 1, emit)

    def _zeros(self, target: Value, begin: Value, end: Value) -> None:
        f, nothing = self.f, zero(vector_type(self.lanes, self.element))

        def emit(index: Value, mask: Value | None, _: Value) -> None:
            to = f.gep(self.element, target, index)
            if mask is None:
                f.store(nothing, to)
            else:
                f.masked_store(nothing, to, mask)

        vector_loop(f, begin, end, self.lanes, 1, emit)


@dataclass(frozen=True, slots=True)
class _Position:
    """An offset in memory, and the index that each bound is about."""

    offset: Value
    bounds: Sequence[Value]


def _factor(affine: Affine, number: int) -> int:
    return sum(factor for axis, factor in affine.terms if axis == number)
