"""Operand slots of finished kernels: making one slot of two that are bound to the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from dfc.kernels.body import Instruction, Load
from dfc.kernels.form import ContractKernel, Kernel, LoopKernel, Operand, Store

Bound = TypeVar("Bound")


def merged(kernel: Kernel, bound: Sequence[Bound], read: int, written: int) -> tuple[Kernel, tuple[Bound, ...]]:
    """The kernel with slot `written` gone into slot `read`, which becomes `update` and is bound as `written` was."""
    numbers = [slot - (slot > written) if slot != written else read - (read > written) for slot in range(len(bound))]
    operands: list[Operand] = []
    bounds: list[Bound] = []
    for slot, operand in enumerate(kernel.operands):
        if slot == written:
            continue
        operands.append(replace(operand, access="update") if slot == read else operand)
        bounds.append(bound[written if slot == read else slot])
    return _renumbered(kernel, tuple(operands), numbers), tuple(bounds)


def _renumbered(kernel: Kernel, operands: tuple[Operand, ...], numbers: Sequence[int]) -> Kernel:
    if isinstance(kernel, ContractKernel):
        return replace(
            kernel,
            operands=operands,
            a=replace(kernel.a, operand=numbers[kernel.a.operand]),
            b=replace(kernel.b, operand=numbers[kernel.b.operand]),
            epilogue=_body(kernel.epilogue, numbers),
            stores=_stores(kernel.stores, numbers),
        )
    assert isinstance(kernel, LoopKernel)
    stages = tuple(
        replace(stage, body=_body(stage.body, numbers), stores=_stores(stage.stores, numbers))
        for stage in kernel.stages
    )
    return replace(kernel, operands=operands, stages=stages)


def _body(body: tuple[Instruction, ...], numbers: Sequence[int]) -> tuple[Instruction, ...]:
    return tuple(
        replace(i, operation=replace(i.operation, operand=numbers[i.operation.operand]))
        if isinstance(i.operation, Load)
        else i
        for i in body
    )


def _stores(stores: tuple[Store, ...], numbers: Sequence[int]) -> tuple[Store, ...]:
    return tuple(replace(store, operand=numbers[store.operand]) for store in stores)
