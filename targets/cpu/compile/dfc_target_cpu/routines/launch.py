"""Launches of routines: the matrices of a stack, shared out between threads.

    run_<n> -> routine_<n>(context, frame, part, parts): for each matrix of its share: the routine of the library

Guarantees that what a matrix gives depends on no other one, and on no thread.
"""

from __future__ import annotations

from dfc.ir.dims import Dim, product
from dfc.kernels.form import RoutineKernel
from dfc.kernels.routines import ROUTINES, routine_work
from dfc_target_cpu.entries.context_code import asked_to_leave, load_field
from dfc_target_cpu.entries.frames import PART, FrameFunction, Lowering
from dfc_target_cpu.entries.threads import pool_run
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.contraction import PART_PRODUCTS, product_workspace_bytes
from dfc_target_cpu.routines.library import ELEMENT, declare

_BYTES = 8


def routine_workspace_bytes(machine: Machine) -> int:
    """Scratch memory of each part, for matrix products."""
    return product_workspace_bytes(machine, ELEMENT)


def lower_routine(lowering: Lowering, kernel: RoutineKernel, number: int) -> str:
    """The functions of one kernel; the name to launch it by."""
    part = _part(lowering, kernel, number)
    function = FrameFunction(lowering, kernel, f"run_{number}", (), "hidden")
    f = function.f
    function.begin()
    useful = f.udiv(function.dims.value(routine_work(kernel)), i64(PART_PRODUCTS))
    stack = function.dims.value(kernel.axes[0].extent)
    threads = load_field(f, function.context, "threads")
    parts = f.maximum(f.minimum(f.minimum(useful, threads), stack), i64(1))
    run = pool_run(lowering.module, lowering.machine)
    f.call(run, "void", [function.context, Value("ptr", f"@{part}"), function.frame, parts])
    return function.finish()


def _part(lowering: Lowering, kernel: RoutineKernel, number: int) -> str:
    function = FrameFunction(lowering, kernel, f"routine_{number}", PART)
    f, site = function.f, function.site()
    part, parts = f.arguments[2:]
    steps = [function.dims.value(_elements(kernel, slot)) for slot in range(len(kernel.operands))]
    stack, *sizes = (function.dims.value(axis.extent) for axis in kernel.axes)
    start = f.gep("i8", load_field(f, function.context, "scratch"), i64(lowering.spill_bytes))
    workspace = f.gep("i8", start, f.mul(part, i64(routine_workspace_bytes(lowering.machine))))
    first, last = (f.udiv(f.mul(stack, one), parts) for one in (part, f.add(part, i64(1))))
    routine = declare(lowering.module, kernel.name)
    with f.counted_loop(first, last, hint="matrix") as matrix:
        asked_to_leave(lowering.module, f, function.context, site.failed)
        at = [f.gep(ELEMENT, p, f.mul(matrix.index, s)) for p, s in zip(site.pointers, steps, strict=True)]
        f.call(routine, "void", [*at, workspace, *sizes])
    return function.finish()


def _elements(kernel: RoutineKernel, slot: int) -> Dim:
    """Of one matrix of an operand."""
    if slot == len(kernel.operands) - 1:
        return ROUTINES[kernel.name].scratch(*(axis.extent for axis in kernel.axes[1:]))
    stack = len(kernel.operands[0].shape) - 2
    return product(kernel.operands[slot].shape[stack:])
