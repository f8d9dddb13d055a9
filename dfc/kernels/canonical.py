"""Canonical kernels: the sizes of the program become the symbols d0, d1, .. of the kernel, in the order of first use.

Guarantees that kernels which differ only in the names of sizes become equal values. Constants stay constants: a kernel
over [784, 100] is specialised for it. `merged` makes one slot of two that are bound to the same buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from dfc.ir.dims import Dim, Symbol, dim
from dfc.kernels.body import Affine, Index, Instruction, Load, Size
from dfc.kernels.form import (
    Axis,
    ContractKernel,
    Kernel,
    LoopKernel,
    MatrixOperand,
    Operand,
    RoutineKernel,
    RowBlockKernel,
    Store,
)

SizeMap = Callable[[Dim], Dim]


def canonical(kernel: Kernel) -> tuple[Kernel, tuple[Dim, ...]]:
    """The kernel over d0, d1, .. and the values of these symbols."""
    symbols: dict[Symbol, None] = {}
    for size in sizes(kernel):
        if size.terms and size.constant is None:
            symbols.update((symbol, None) for symbol in sorted(size.symbols(), key=str))
    if not symbols:
        return kernel, ()
    names = {symbol: dim(Symbol(f"d{number}")) for number, symbol in enumerate(symbols)}
    return with_sizes(kernel, names), tuple(dim(symbol) for symbol in symbols)


def sizes(kernel: Kernel) -> Iterator[Dim]:
    """Every dimension in a kernel, in a fixed order."""
    for operand in kernel.operands:
        yield from operand.shape
    for axis in kernel.axes:
        yield axis.extent
    if isinstance(kernel, RowBlockKernel):
        for panel in kernel.panels:
            yield from panel.shape
        for step in kernel.steps:
            yield from sizes(step.kernel)
    elif isinstance(kernel, ContractKernel):
        for factor in (kernel.a, kernel.b):
            yield from _offsets(factor.index)
            for split in factor.splits:
                yield from split.extents
        yield from _body_sizes(kernel.epilogue, kernel.stores)
    elif isinstance(kernel, LoopKernel):
        for stage in kernel.stages:
            yield from _body_sizes(stage.body, stage.stores)


def _body_sizes(body: tuple[Instruction, ...], stores: tuple[Store, ...]) -> Iterator[Dim]:
    for instruction in body:
        if isinstance(instruction.operation, Size):
            yield instruction.operation.size
        elif isinstance(instruction.operation, Load):
            yield from _offsets(instruction.operation.index)
    for store in stores:
        yield from _offsets(store.index)


def _offsets(index: tuple[Index, ...]) -> Iterator[Dim]:
    for i in index:
        if isinstance(i, Affine):
            yield i.offset


def with_sizes(kernel: Kernel, names: Mapping[Symbol, Dim]) -> Kernel:
    """The kernel with its dimensions replaced."""

    def size(old: Dim) -> Dim:
        return old if old.constant is not None else old.substitute(names)

    if isinstance(kernel, RoutineKernel):
        return RoutineKernel(kernel.name, _operands(kernel.operands, size), _axes(kernel.axes, size))
    if not isinstance(kernel, RowBlockKernel):
        return _resized(kernel, size)
    steps = tuple(replace(step, kernel=_resized(step.kernel, size)) for step in kernel.steps)
    operands, panels = _operands(kernel.operands, size), _operands(kernel.panels, size)
    return RowBlockKernel(operands, _axes(kernel.axes, size), steps, panels)


def _operands(operands: tuple[Operand, ...], size: SizeMap) -> tuple[Operand, ...]:
    return tuple(Operand(o.dtype, tuple(map(size, o.shape)), o.access) for o in operands)


def _axes(axes: tuple[Axis, ...], size: SizeMap) -> tuple[Axis, ...]:
    return tuple(replace(axis, extent=size(axis.extent)) for axis in axes)


def _resized(kernel: LoopKernel | ContractKernel, size: SizeMap) -> LoopKernel | ContractKernel:
    operands, axes = _operands(kernel.operands, size), _axes(kernel.axes, size)
    if isinstance(kernel, LoopKernel):
        stages = tuple(
            replace(stage, body=_with_body(stage.body, size), stores=_with_stores(stage.stores, size))
            for stage in kernel.stages
        )
        return LoopKernel(operands, axes, kernel.outer, stages, kernel.ordered)
    a, b = (_with_factor(factor, size) for factor in (kernel.a, kernel.b))
    epilogue, stores = _with_body(kernel.epilogue, size), _with_stores(kernel.stores, size)
    return ContractKernel(operands, axes, a, b, kernel.accumulator, epilogue, stores)


def _with_factor(factor: MatrixOperand, size: SizeMap) -> MatrixOperand:
    index = tuple(Affine(i.terms, size(i.offset)) for i in factor.index)
    splits = tuple(replace(split, extents=tuple(map(size, split.extents))) for split in factor.splits)
    return replace(factor, index=index, splits=splits)


def _with_body(body: tuple[Instruction, ...], size: SizeMap) -> tuple[Instruction, ...]:
    return tuple(_with_instruction(instruction, size) for instruction in body)


def _with_instruction(instruction: Instruction, size: SizeMap) -> Instruction:
    operation = instruction.operation
    if isinstance(operation, Size):
        return Instruction(Size(size(operation.size)), instruction.arguments, instruction.dtype)
    if isinstance(operation, Load):
        load = Load(operation.operand, _with_index(operation.index, size), operation.mask)
        return Instruction(load, instruction.arguments, instruction.dtype)
    return instruction


def _with_stores(stores: tuple[Store, ...], size: SizeMap) -> tuple[Store, ...]:
    return tuple(replace(store, index=_with_index(store.index, size)) for store in stores)


def _with_index(index: tuple[Index, ...], size: SizeMap) -> tuple[Index, ...]:
    return tuple(Affine(i.terms, size(i.offset)) if isinstance(i, Affine) else i for i in index)


def symbol_count(kernel: Kernel) -> int:
    """How many symbols d0, d1, ... a kernel has: launches bind all of them."""
    symbols = {symbol.name for formula in sizes(kernel) for symbol in formula.symbols()}
    return max((int(name[1:]) + 1 for name in symbols), default=0)
