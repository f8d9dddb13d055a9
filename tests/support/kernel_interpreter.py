"""Executes a scheduled program point by point on small arrays: what its kernels, steps and memory plan mean.

Independent of every target. Arena memory starts as NaN (bytes 0xff), so that a read of memory that nothing
wrote, or that was written over, shows. Scalar functions are NumPy's; f16 and bf16 are computed in f32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dfc.ir.dims import Symbol
from dfc.kernels.form import ContractKernel, Kernel, LoopKernel, RowBlockKernel, Stage
from dfc.kernels.program import (
    Buffer,
    BufferRole,
    Check,
    Copy,
    EntryProgram,
    For,
    HostCall,
    If,
    Launch,
    Locked,
    Measure,
    Program,
    Step,
    While,
)
from tests.support.kernel_points import Failed, PointCall
from tests.support.kernel_products import sums
from tests.support.kernel_scalars import FOLD, computing, neutral


class Interpreter:
    """Runs one call of an entry."""

    def __init__(self, program: Program, entry: EntryProgram, state: dict[str, Any], sizes: Mapping[Symbol, int]):
        self.program = program
        self.entry = entry
        self.state = state
        self.sizes = dict(sizes)
        self.arena = np.full(entry.arena.evaluate(self.sizes), 0xFF, np.uint8)
        self.arguments: dict[int, Any] = {}
        self.results: dict[int, Any] = {}
        self.registers: dict[int, Any] = {}
        self.launches = 0

    def array(self, number: int) -> Any:
        buffer = self.entry.buffers[number]
        shape = [d.evaluate(self.sizes) for d in buffer.shape]
        match buffer.role:
            case BufferRole.ARGUMENT:
                return self.arguments[buffer.index].reshape(shape)
            case BufferRole.CONSTANT:
                return self.program.constants[buffer.index].array.reshape(shape)
            case BufferRole.RESOURCE:
                return self.state[buffer.resource].reshape(shape)
            case BufferRole.RESULT:
                return self.results.setdefault(buffer.index, poisoned(buffer, shape)).reshape(shape)
            case BufferRole.REGISTER:
                assert not shape
                return self.registers.setdefault(number, poisoned(buffer, shape))
            case BufferRole.ARENA:
                start = buffer.offset.evaluate(self.sizes)
                count = int(np.prod(shape, dtype=np.int64)) * buffer.dtype.size
                assert start + count <= len(self.arena), "a buffer leaves the arena"
                return self.arena[start : start + count].view(buffer.dtype.numpy).reshape(shape)

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Launch():
                    self.launch(step)
                case Copy():
                    self.array(step.target)[...] = self.array(step.source)
                case If():
                    self.run(step.then if self.array(step.condition) else step.otherwise)
                case While():
                    self.run(step.condition)
                    while self.array(step.test):
                        self.run(step.body)
                        self.run(step.condition)
                case For():
                    for i in range(int(self.array(step.start)), int(self.array(step.stop))):
                        self.array(step.index)[...] = i
                        self.run(step.body)
                case Check():
                    if not self.array(step.condition):
                        raise Failed(step.fault)
                case Measure():
                    count, most = int(self.array(step.source)), step.most.evaluate(self.sizes)
                    if not 0 <= count <= most:
                        raise Failed(step.fault)
                    self.sizes[step.symbol] = count
                case Locked():
                    self.run(step.body)
                case HostCall():
                    raise NotImplementedError(f"call of the run side {step.site}")

    def launch(self, step: Launch) -> None:
        self.launches += 1
        kernel = self.program.kernels[step.kernel]
        sizes = {Symbol(f"d{n}"): d.evaluate(self.sizes) for n, d in enumerate(step.sizes)}
        arrays = [self.array(number) for number in step.buffers]
        for array, operand in zip(arrays, kernel.operands, strict=True):
            assert array.shape == tuple(d.evaluate(sizes) for d in operand.shape), "a buffer does not fit its slot"
            assert array.dtype == operand.dtype.numpy
        self.check_overlap(step, kernel.operands)
        run_kernel(kernel, arrays, sizes)

    def check_overlap(self, step: Launch, operands: Sequence[Any]) -> None:
        """Two slots of one launch never overlap in memory if one is written."""
        arrays = [self.array(number) for number in step.buffers]
        for i, a in enumerate(arrays):
            for j in range(i):
                if operands[i].access != "read" or operands[j].access != "read":
                    assert not np.shares_memory(a, arrays[j]), f"slots {j} and {i} of {step.names} overlap"


def run_kernel(kernel: Kernel, arrays: list[Any], sizes: dict[Symbol, int]) -> None:
    """Runs a kernel on an array for each operand."""
    if isinstance(kernel, RowBlockKernel):
        panels = [np.full([d.evaluate(sizes) for d in p.shape], np.nan).astype(p.dtype.numpy) for p in kernel.panels]
        for step in kernel.steps:
            run_kernel(step.kernel, [[*arrays, *panels][number] for number in step.operands], sizes)
        return
    extents = [axis.extent.evaluate(sizes) for axis in kernel.axes]
    call = PointCall(arrays, sizes, extents, [operand.access for operand in kernel.operands])
    with np.errstate(all="ignore"):
        if isinstance(kernel, ContractKernel):
            contract(kernel, call)
        else:
            loops(kernel, call)


def poisoned(buffer: Buffer, shape: Sequence[int]) -> Any:
    count = int(np.prod(shape, dtype=np.int64)) * buffer.dtype.size
    return np.full(count, 0xFF, np.uint8).view(buffer.dtype.numpy).reshape(shape)


def loops(kernel: LoopKernel, call: PointCall) -> None:
    outer = call.extents[: kernel.outer]
    points = list(product(*map(range, outer)))
    if not kernel.ordered:
        points.reverse()  # outer points are independent: any order will do
    for point in points:
        call.reduced = []
        for stage in kernel.stages:
            call.reduced.append(run_stage(kernel, stage, call, point))


def run_stage(kernel: LoopKernel, stage: Stage, call: PointCall, outer: tuple[int, ...]) -> list[Any]:
    totals = [neutral(r) if not r.combine.startswith("arg") else None for r in stage.reductions]
    best: list[int] = [0] * len(totals)
    for number, inner in enumerate(product(*(range(call.extents[axis]) for axis in stage.axes))):
        point = [*outer, *([0] * (len(call.extents) - len(outer)))]
        for axis, i in zip(stage.axes, inner, strict=True):
            point[axis] = i
        values = call.body(stage.body, point)
        for r, reduction in enumerate(stage.reductions):
            element = values[reduction.value]
            if reduction.combine.startswith("arg"):
                if totals[r] is None or better(reduction.combine, element, totals[r]):
                    totals[r], best[r] = element, number
            else:
                totals[r] = FOLD[reduction.combine](totals[r], element)
        for store in stage.stores:
            call.store(store, values, point)
    return [
        computing(r.dtype).type(best[n]) if r.combine.startswith("arg") else totals[n]
        for n, r in enumerate(stage.reductions)
    ]


def better(combine: str, new: Any, old: Any) -> bool:
    if np.isnan(old) if np.asarray(old).dtype.kind == "f" else False:
        return False
    if np.isnan(new) if np.asarray(new).dtype.kind == "f" else False:
        return True
    return bool(new > old) if combine == "argmax" else bool(new < old)


def contract(kernel: ContractKernel, call: PointCall) -> None:
    totals = sums(kernel, call.operands, call.sizes, call.extents)
    for outer in np.ndindex(totals.shape):
        call.accumulated = totals[outer]
        point = [*outer, 0]
        values = call.body(kernel.epilogue, point)
        for store in kernel.stores:
            call.store(store, values, point)


@dataclass
class Ran:
    """Results by position, the number of launches, the interpreter for closer looks."""

    results: list[Any]
    launches: int
    interpreter: Interpreter


def run(
    program: Program,
    entry: str,
    feeds: Sequence[Any] = (),
    state: dict[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Ran:
    """Calls an entry. `state` is changed in place; `sizes` are by name of the symbol."""
    chosen = next(e for e in program.entries if e.name == entry)
    symbols = {symbol: sizes[str(symbol)] for symbol in chosen.dims} if sizes else {}
    machine = Interpreter(program, chosen, state if state is not None else {}, symbols)
    for number, feed in enumerate(feeds):
        array = np.array(feed)
        array.setflags(write=False)
        machine.arguments[number] = array
    machine.run(chosen.steps)
    results = [np.array(machine.array(number)) for number in chosen.results]
    for array, number in zip(results, chosen.results, strict=True):
        buffer = chosen.buffers[number]
        assert buffer.role is BufferRole.RESULT, "results lie in the memory of the caller"
        assert array.dtype == buffer.dtype.numpy
    return Ran(results, machine.launches, machine)
