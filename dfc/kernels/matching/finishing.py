"""What is left to do with sums that a library made: the second kernel of a contraction that is cut in two.

    contract(a, b, c, ...): epilogue(sum of a * b, c, ...)    ->    sums := a * b;    map(sums, c, ...): epilogue

Guarantees that both together mean the same as the one, up to the order of the sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dfc.ir.dtypes import DType
from dfc.kernels.body import Accumulated, Affine, Apply, Instruction, Load
from dfc.kernels.form import ContractKernel, LoopKernel, Operand, Stage
from dfc.kernels.matching.convolution import SUMS


def is_rounding_first(kernel: ContractKernel, dtype: DType) -> bool:
    """Whether nothing is done with the sums but to round them to this type."""
    totals = {number for number, one in enumerate(kernel.epilogue) if isinstance(one.operation, Accumulated)}
    users = [one for one in kernel.epilogue if totals & set(one.arguments)]
    return all(_casts(one, dtype) for one in users) and not any(store.value in totals for store in kernel.stores)


def _casts(one: Instruction, dtype: DType) -> bool:
    return isinstance(one.operation, Apply) and one.operation.function == "cast" and one.dtype == dtype


def finishing(
    kernel: ContractKernel, *, by_rows: bool, sums: DType | None = None
) -> tuple[LoopKernel, tuple[int, ...]]:
    """What is left to do with sums that lie in memory of their own, row by row of the kernel's m or, not `by_rows`, of
    its n; and the operands of the kernel that it is given. `sums` is their type, if they are rounded already."""
    dtype = kernel.accumulator if sums is None else sums
    axes = kernel.axes[:-1]
    m, n = len(axes) - 2, len(axes) - 1
    order = (*range(m), *((m, n) if by_rows else (n, m)))
    used = [one.operation.operand for one in kernel.epilogue if isinstance(one.operation, Load)]
    operands = (SUMS, *sorted({*used, *(store.operand for store in kernel.stores)}))
    slots = {old: new for new, old in enumerate(operands)}
    lie = Operand(dtype, tuple(axes[axis].extent for axis in order), "read")
    load = Instruction(Load(slots[SUMS], tuple(Affine(((axis, 1),)) for axis in order)), (), dtype)
    totals = {number for number, one in enumerate(kernel.epilogue) if isinstance(one.operation, Accumulated)}
    rounded = dtype != kernel.accumulator
    body = tuple(
        load if number in totals or (rounded and totals & set(one.arguments)) else _moved(one, slots)
        for number, one in enumerate(kernel.epilogue)
    )
    stores = tuple(replace(store, operand=slots[store.operand]) for store in kernel.stores)
    operands_ = (lie, *(kernel.operands[number] for number in operands[1:]))
    return LoopKernel(operands_, axes, len(axes), (Stage((), body, (), stores),)), operands


def _moved(one: Instruction, slots: Mapping[int, int]) -> Instruction:
    """The same instruction in the other kernel."""
    if not isinstance(one.operation, Load):
        return one
    return replace(one, operation=replace(one.operation, operand=slots[one.operation.operand]))
