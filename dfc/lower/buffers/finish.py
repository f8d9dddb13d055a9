"""Unallocated steps over buffer views become steps over numbered buffers; kernels are made canonical and shared."""

from __future__ import annotations

from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim, Symbol, maximum
from dfc.kernels.canonical import canonical
from dfc.kernels.form import Axis, Kernel, RowBlockKernel
from dfc.kernels.program import (
    Buffer,
    Check,
    Copy,
    For,
    HostCall,
    If,
    Launch,
    Locked,
    Measure,
    Parallel,
    Program,
    Step,
    While,
)
from dfc.lower.buffers.panels import with_shared_panels
from dfc.lower.schedule.unallocated import (
    UnallocatedCheck,
    UnallocatedCopy,
    UnallocatedFor,
    UnallocatedHostCall,
    UnallocatedIf,
    UnallocatedLaunch,
    UnallocatedLocked,
    UnallocatedMeasure,
    UnallocatedParallel,
    UnallocatedStep,
    UnallocatedWhile,
)
from dfc.lower.storage import BufferView, Storage


@dataclass(slots=True)
class Buffers:
    """The buffers of an entry, numbered by first use."""

    offsets: dict[Storage, Dim]
    numbers: dict[BufferView, int] = field(default_factory=dict[BufferView, int])

    def number(self, view: BufferView) -> int:
        return self.numbers.setdefault(view, len(self.numbers))

    def buffers(self) -> list[Buffer]:
        return [self._buffer(view) for view in self.numbers]

    def _buffer(self, view: BufferView) -> Buffer:
        storage = view.storage
        offset = self.offsets.get(storage, Dim(()))
        return Buffer(storage.dtype, view.shape, storage.role, storage.name, storage.index, storage.resource, offset)


@dataclass(slots=True)
class Finisher:
    """Numbers kernels of a program; one for all entries."""

    program: Program
    in_place: bool = True
    kernels: dict[Kernel, int] = field(default_factory=dict[Kernel, int])
    measured: frozenset[Symbol] = frozenset()  # the sizes that the entry at hand finds out

    def steps(self, steps: list[UnallocatedStep], buffers: Buffers) -> tuple[Step, ...]:
        return tuple(self._step(step, buffers) for step in steps)

    def _step(self, step: UnallocatedStep, buffers: Buffers) -> Step:
        match step:
            case UnallocatedLaunch():
                return self._launch(step, buffers)
            case UnallocatedIf():
                then, otherwise = self.steps(step.then, buffers), self.steps(step.otherwise, buffers)
                return If(buffers.number(step.condition), then, otherwise)
            case UnallocatedWhile():
                before = self.steps(step.condition, buffers)
                return While(before, buffers.number(step.test), self.steps(step.body, buffers))
            case UnallocatedFor():
                index, start, stop = (buffers.number(view) for view in (step.index, step.start, step.stop))
                return For(index, start, stop, self.steps(step.body, buffers))
            case UnallocatedLocked():
                return Locked(step.containers, step.exclusive, self.steps(step.body, buffers))
            case UnallocatedParallel():
                branches = tuple(self.steps(branch, buffers) for branch in step.branches)
                return Parallel(branches, step.costs, step.work, step.most)
            case UnallocatedCopy():
                return Copy(buffers.number(step.source), buffers.number(step.target))
            case UnallocatedCheck():
                return Check(buffers.number(step.condition), step.fault)
            case UnallocatedMeasure():
                return Measure(step.symbol, buffers.number(step.source), step.most, step.fault)
            case UnallocatedHostCall():
                inputs, outputs = (
                    tuple(buffers.number(view) for view in views) for views in (step.inputs, step.outputs)
                )
                return HostCall(step.site, inputs, outputs)

    def _launch(self, step: UnallocatedLaunch, buffers: Buffers) -> Launch:
        chosen = step.kernel
        if self.in_place and isinstance(chosen, RowBlockKernel):
            chosen = with_shared_panels(chosen)
        kernel, sizes = canonical(never_negative(chosen, self.measured))
        number = self.kernels.setdefault(kernel, len(self.kernels))
        if number == len(self.program.kernels):
            self.program.kernels.append(kernel)
        bound = tuple(buffers.number(view) for view in step.views)
        return Launch(number, bound, sizes, step.names, step.span, step.reasons)


def never_negative(kernel: Kernel, measured: frozenset[Symbol]) -> Kernel:
    """The kernel with extents of at least 0, where sizes that only the run finds out are subtracted from something or
    something from them: the check that they do not come to less may be missing from a partial run."""

    def clamped(axis: Axis) -> Axis:
        extent = axis.extent
        falls = any(coefficient < 0 for _, coefficient in extent.terms)
        return replace(axis, extent=maximum(extent, ZERO)) if falls and extent.symbols() & measured else axis

    axes = tuple(map(clamped, kernel.axes)) if measured else kernel.axes
    return kernel if axes == kernel.axes else replace(kernel, axes=axes)
