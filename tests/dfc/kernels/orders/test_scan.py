"""Which ordered kernels are scans, and which of these go by rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dfc.ir.dims import dim
from dfc.ir.dtypes import F32, I32
from dfc.kernels.body import Affine, BodyBuilder, Computed, Instruction, Load, Mask, Number
from dfc.kernels.form import Axis, LoopKernel, Operand, Stage, Store
from dfc.kernels.orders.scan import find_scan, scan_order

ROWS, LENGTH = 5, 70


def sums(*, by_rows: bool = True, step: int = -1, function: str = "add", swapped: bool = False) -> LoopKernel:
    """Running sums along kernel axis 1."""
    axes = (0, 1) if by_rows else (1, 0)
    shape = tuple(dim((ROWS, LENGTH)[axis]) for axis in axes)
    body = BodyBuilder()
    here = tuple(Affine(((axis, 1),)) for axis in axes)
    there = tuple(Affine(((axis, 1),), dim(step if axis == 1 else 0)) for axis in axes)
    x = body.append(Load(0, here, None), (), F32)
    mask = Mask(((axes.index(1), 1),), body.number(0.0, F32))
    before = body.append(Load(1, there, mask), (), F32)
    total = body.apply(function, *((x, before) if swapped else (before, x)))
    stage = Stage((1,), tuple(body.instructions), (), (Store(1, here, total),))
    operands = (Operand(F32, shape, "read"), Operand(F32, shape, "update"))
    return LoopKernel(operands, (Axis("i", dim(ROWS)), Axis("j", dim(LENGTH))), 1, (stage,), ordered=True)


@pytest.mark.parametrize("by_rows", [True, False])
def test_neighbours_in_memory_decide_between_rows_and_columns(by_rows: bool) -> None:
    order = scan_order(sums(by_rows=by_rows))
    assert order is not None
    assert (order.by_rows, order.outer, order.length) == (by_rows, (0,), dim(LENGTH))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_scan_knows_its_sides(swapped: bool) -> None:
    kernel = sums(swapped=swapped)
    scan = find_scan(kernel)
    assert scan is not None
    body: tuple[Instruction, ...] = kernel.stages[0].body
    assert scan.is_element_first == swapped
    assert body[scan.value].arguments == ((scan.element, scan.before) if swapped else (scan.before, scan.element))
    assert isinstance(body[scan.start].operation, Number)


def test_other_ordered_kernels_are_no_scans() -> None:
    kernel = sums()
    stage = kernel.stages[0]
    assert find_scan(replace(kernel, ordered=False)) is None
    assert find_scan(sums(step=-2)) is None, "not the step before"
    assert find_scan(sums(function="sub")) is None, "not associative"
    assert find_scan(replace(kernel, stages=(replace(stage, stores=(*stage.stores, stage.stores[0])),))) is None
    scattered = replace(stage.stores[0], combine="add")
    assert find_scan(replace(kernel, stages=(replace(stage, stores=(scattered,)),))) is None


def test_a_scan_stores_where_its_indices_say_alone() -> None:
    kernel = sums()
    stage = kernel.stages[0]
    row = len(stage.body)
    body = (*stage.body, Instruction(Load(2, (Affine(((1, 1),)),), None), (), I32))
    store = replace(stage.stores[0], index=(Computed(row, 0), Affine(((1, 1),))))
    operands = (*kernel.operands, Operand(I32, (dim(LENGTH),), "read"))
    assert find_scan(replace(kernel, operands=operands, stages=(replace(stage, body=body, stores=(store,)),))) is None
