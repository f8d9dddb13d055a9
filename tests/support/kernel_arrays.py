"""Loop kernels run by NumPy, all inner points of a stage at once: what they mean, to the bit.

Independent of every target: scalars are the kernel functions of `dfc.lower.legalise`, run instruction by instruction,
and reductions are combined in the order of `dfc.kernels.orders.reduction`. Of kernels that run in order it has scans,
in the order of `dfc.kernels.orders.scan`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dfc.ir.dims import Dim, Symbol
from dfc.ir.dtypes import BOOL, I64, DType
from dfc.kernels.body import Affine, Apply, AxisIndex, Computed, Instruction, Load, Number, Philox, Reduced, Size
from dfc.kernels.form import LoopKernel, Reduction, Store
from dfc.kernels.functions.interpret_function import run
from dfc.kernels.orders.reduction import StageOrder, kernel_order
from dfc.kernels.orders.scan import DISTANCES, SEGMENT, ScanOrder, scan_order
from dfc.kernels.primitives import register_type
from dfc.lower.legalise.halves import HALVES, load_function, store_function
from dfc.lower.legalise.meaning import meaning, search
from dfc.lower.legalise.random import random_function

Array = np.ndarray
Kept = list[Array]
_COMBINE = {"min": "minimum", "max": "maximum"}
_NO_INDEX = (1 << 63) - 1


@dataclass
class _Stage:
    """One stage at one outer point: the indices of its inner points, row by row, and what its body has made of them."""

    operands: Sequence[Array]
    sizes: Mapping[Symbol, int]
    indices: dict[int, Array]
    count: int
    reduced: Mapping[tuple[int, int], Any]

    def number(self, size: Dim) -> int:
        return size.evaluate(self.sizes)

    def affine(self, index: Affine) -> Array:
        total = np.full(self.count, self.number(index.offset), np.int64)
        for axis, factor in index.terms:
            total = total + factor * self.indices[axis]
        return total

    def indices_of(self, index: Sequence[Any], values: Sequence[Array], shape: Sequence[int]) -> list[Array]:
        indices: list[Array] = []
        for one, extent in zip(index, shape, strict=True):
            if isinstance(one, Computed):
                row = values[one.instruction].astype(np.int64)
                indices.append(np.where(row < 0, row + extent, row))
            else:
                indices.append(self.affine(one))
        return indices

    def load(self, load: Load, values: Sequence[Array], dtype: DType) -> Array:
        array = self.operands[load.operand]
        at = self.indices_of(load.index, values, array.shape)
        inside = np.ones(self.count, np.bool_)
        for axis, step in () if load.mask is None else load.mask.indices:
            inside &= (at[axis] % step == 0) & (at[axis] // step >= 0) & (at[axis] // step < array.shape[axis])
            at[axis] = at[axis] // step
        read = array[tuple(np.where(inside, one, 0) for one in at)]
        if dtype in HALVES:
            (read,) = run(load_function(dtype), read.view(np.uint16))
        return read if load.mask is None else np.where(inside, read, values[load.mask.otherwise])

    def value(self, one: Instruction, body: Sequence[Instruction], values: Sequence[Array]) -> Array:
        operation, arguments = one.operation, [values[a] for a in one.arguments]
        match operation:
            case Load():
                return self.load(operation, values, one.dtype)
            case Number():
                scalar = np.frombuffer(operation.bits, one.dtype.numpy)[0]
                return np.full(self.count, scalar).astype(register_type(one.dtype).numpy)
            case AxisIndex():
                return self.indices[operation.axis]
            case Size():
                return np.full(self.count, self.number(operation.size), np.int64)
            case Reduced():
                return np.full(self.count, self.reduced[operation.stage, operation.reduction])
            case Philox():
                return run(random_function(operation.distribution, one.dtype), *arguments)[0]
            case Apply():
                return run(meaning(operation.function, [body[a].dtype for a in one.arguments], one.dtype), *arguments)[
                    0
                ]
            case _:
                raise NotImplementedError(type(operation).__name__)

    def body(self, body: Sequence[Instruction]) -> list[Array]:
        values: list[Array] = []
        for one in body:
            values.append(self.value(one, body, values))
        return values

    def store(self, store: Store, values: Sequence[Array], dtype: DType) -> None:
        array, value = self.operands[store.operand], values[store.value]
        at = tuple(self.indices_of(store.index, values, array.shape))
        if dtype in HALVES:
            value = run(store_function(dtype), value)[0].view(dtype.numpy)
        assert not store.combine
        array[at] = value if at else value[-1]


class _Tree:
    """The values of one reduction, combined in order."""

    def __init__(self, reduction: Reduction, dtype: DType) -> None:
        self.name, self.dtype, self.result_type = reduction.combine, register_type(dtype), reduction.dtype
        self.is_search = self.name.startswith("arg")

    def neutral(self, count: int) -> Kept:
        kind: np.dtype[Any] = self.dtype.numpy
        largest = self.name in ("min", "argmin")
        if self.name in ("min", "max") or self.is_search:
            if self.dtype.is_float:
                extreme: Any = np.inf if largest else -np.inf
            elif self.dtype == BOOL:
                extreme = largest
            else:
                limits = np.iinfo(kind.name)
                extreme = limits.max if largest else limits.min
            index = [np.full(count, _NO_INDEX)] if self.is_search else []
            return [np.full(count, extreme, kind), *index]
        number = {"add": 0, "or": 0, "mul": 1, "and": True if self.dtype == BOOL else -1}[self.name]
        return [np.full(count, number).astype(kind)]

    def combine(self, a: Kept, b: Kept) -> Kept:
        """`a` comes first."""
        if self.is_search:
            beats = run(search(self.dtype, largest=self.name == "argmax"), b[0], b[1], a[0], a[1])[0]
            return [np.where(beats, new, old) for new, old in zip(b, a, strict=True)]
        both = (b[0], a[0]) if self.name in _COMBINE else (a[0], b[0])
        function = meaning(_COMBINE.get(self.name, self.name), (self.dtype, self.dtype), self.dtype)
        return [run(function, *both)[0]]

    def total(self, values: Kept, order: StageOrder, extents: Sequence[int], block: int, part: int) -> Any:
        """`values` by row, one after the other; the first of `extents` is what is cut."""
        if not order.axes:
            return self.result(self.combine(self.neutral(1), values))
        middle = math.prod(extents[1:-1])
        shaped = [one.reshape(extents[0], middle, extents[-1]) if len(extents) > 1 else one for one in values]
        total = self.neutral(1)
        for first in range(0, extents[0], part):
            end = min(first + part, extents[0])
            running = self.neutral(order.accumulators)
            for start in range(first, end, block):
                rows = [one[start : min(start + block, end)] for one in shaped]
                running = self.combine(running, self.block(rows, order.accumulators))
            total = self.combine(total, self.halved(running))
        return self.result(total)

    def block(self, rows: Kept, accumulators: int) -> Kept:
        running = self.neutral(accumulators)
        rows = [one.reshape(math.prod(one.shape[:-1]), one.shape[-1]) for one in rows]
        for row in range(len(rows[0])):
            for start in range(0, rows[0].shape[1], accumulators):
                new = [one[row, start : start + accumulators] for one in rows]
                short = [one[: len(new[0])] for one in running]
                running = [
                    np.concatenate([combined, old[len(combined) :]])
                    for combined, old in zip(self.combine(short, new), running, strict=True)
                ]
        return running

    def halved(self, running: Kept) -> Kept:
        while len(running[0]) > 1:
            half = len(running[0]) // 2
            running = self.combine([one[:half] for one in running], [one[half:] for one in running])
        return running

    def result(self, total: Kept) -> Any:
        if self.is_search:
            index = np.int64(0 if total[1][0] == _NO_INDEX else total[1][0])
            return run(meaning("cast", (I64,), register_type(self.result_type)), index)[0]
        if self.dtype == register_type(self.result_type):
            return total[0][0]
        return run(meaning("cast", (self.dtype,), register_type(self.result_type)), total[0][0])[0]


def run_loops(kernel: LoopKernel, operands: Sequence[Array], sizes: Mapping[Symbol, int]) -> None:
    """Runs a kernel on an array for each operand, in place. Nothing may fail in it."""
    if kernel.ordered:
        return _run_scan(kernel, operands, sizes)
    order = kernel_order(kernel)
    extents = [axis.extent.evaluate(sizes) for axis in kernel.axes]
    for outer in product(*map(range, extents[: kernel.outer])):
        reduced: dict[tuple[int, int], Any] = {}
        for number, stage in enumerate(order.stages):
            _run_stage(number, stage, extents, outer, (operands, sizes, reduced, kernel))
    return None


def _run_scan(kernel: LoopKernel, operands: Sequence[Array], sizes: Mapping[Symbol, int]) -> None:
    order = scan_order(kernel)
    assert order is not None, "only scans run in order here"
    extents = [axis.extent.evaluate(sizes) for axis in kernel.axes]
    length, body = extents[order.scan.axis], kernel.stages[0].body
    for outer in product(*map(range, extents[: kernel.outer])):
        indices = {axis: np.full(length, index, np.int64) for axis, index in enumerate(outer)}
        indices[order.scan.axis] = np.arange(length)
        row = _Stage(operands, sizes, indices, length, {})
        skipped = {order.scan.before, order.scan.value}
        values: list[Array] = []
        for number, one in enumerate(body):
            values.append(np.zeros(length) if number in skipped else row.value(one, body, values))
        start = row.value(body[order.scan.start], body, [])[:1]
        by_steps = _prefixes if order.by_rows else _steps
        values[order.scan.value] = by_steps(order, start, np.asarray(values[order.scan.element], start.dtype))
        store = kernel.stages[0].stores[0]
        row.store(store, values, kernel.operands[store.operand].dtype)


def _combined(order: ScanOrder, earlier: Array, later: Array) -> Array:
    dtype = order.kernel.stages[0].body[order.scan.value].dtype
    sides = (later, earlier) if order.scan.is_element_first else (earlier, later)
    return run(meaning(order.scan.function, (dtype, dtype), dtype), *sides)[0]


def _prefixes(order: ScanOrder, carry: Array, element: Array) -> Array:
    """A segment after the other."""
    done = [element[:0]]
    for first in range(0, len(element), SEGMENT):
        value = element[first : first + SEGMENT]
        for distance in DISTANCES:
            if distance < len(value):
                value = np.concatenate([value[:distance], _combined(order, value[:-distance], value[distance:])])
        done.append(_combined(order, np.repeat(carry, len(value)), value))
        carry = done[-1][-1:]
    return np.concatenate(done)


def _steps(order: ScanOrder, before: Array, element: Array) -> Array:
    """One element after the other; the next one reads what was stored."""
    dtype = order.kernel.stages[0].body[order.scan.value].dtype
    done = [element[:0]]
    for number in range(len(element)):
        done.append(_combined(order, before, element[number : number + 1]))
        before = done[-1]
        if dtype in HALVES:
            (bits,) = run(store_function(dtype), before)
            (before,) = run(load_function(dtype), bits)
    return np.concatenate(done)


def _run_stage(number: int, one: StageOrder, extents: Sequence[int], outer: Sequence[int], call: Any) -> None:
    operands, sizes, reduced, kernel = call
    own = {axis: extent.evaluate(sizes) for axis, extent in enumerate(one.extents)}
    inner = [own[axis] for axis in one.axes]
    grid = np.indices(inner, np.int64).reshape(len(inner), int(np.prod(inner, dtype=np.int64)))
    count = grid.shape[1]
    indices = {axis: np.full(count, index, np.int64) for axis, index in enumerate(outer)}
    indices |= {axis: np.zeros(count, np.int64) for axis in range(kernel.outer, len(extents))}
    indices |= _unmerged(one, dict(zip(one.axes, grid, strict=True)), extents)
    stage = _Stage(operands, sizes, indices, count, dict(reduced))
    values = stage.body(one.stage.body)
    for store in one.stage.stores:
        stage.store(store, values, kernel.operands[store.operand].dtype)
    for position, reduction in enumerate(one.stage.reductions):
        tree = _Tree(reduction, one.stage.body[reduction.value].dtype)
        kept = [np.asarray(values[reduction.value], tree.dtype.numpy)]
        if tree.is_search:
            kept.append(grid[-1] if len(grid) else np.zeros(count, np.int64))
        block, part = one.block.evaluate(sizes), one.part.evaluate(sizes)
        reduced[number, position] = tree.total(kept, one, inner, block, part)


def _unmerged(one: StageOrder, merged: dict[int, Array], extents: Sequence[int]) -> dict[int, Array]:
    """The index along each axis of the kernel, where one axis of the order stands for several neighbours."""
    indices: dict[int, Array] = {}
    waiting = list(one.stage.axes)
    while waiting:
        axis = waiting.pop()
        index = merged.get(axis)
        if index is None:
            continue  # of extent 1
        others = [a for a in waiting if a not in merged and extents[a] != 1]
        indices[axis] = index % max(extents[axis], 1)
        rest = index // max(extents[axis], 1)
        while waiting and waiting[-1] in others:
            outer = waiting.pop()
            indices[outer] = rest % max(extents[outer], 1)
            rest = rest // max(extents[outer], 1)
    return indices
