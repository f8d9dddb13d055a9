"""Draft steps over places become steps over numbered buffers; kernels are made canonical and shared."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dfc.ir.dims import ZERO, Dim, Symbol, maximum
from dfc.kernels.canonical import canonical
from dfc.kernels.form import Axis, Kernel
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
    Program,
    Step,
    While,
)
from dfc.lower.schedule.draft import (
    DraftCheck,
    DraftCopy,
    DraftFor,
    DraftHostCall,
    DraftIf,
    DraftLaunch,
    DraftLocked,
    DraftMeasure,
    DraftWhile,
    UnallocatedStep,
)
from dfc.lower.storage import BufferView, Storage


@dataclass(slots=True)
class Buffers:
    """The buffers of an entry, numbered by first use."""

    offsets: dict[Storage, Dim]
    numbers: dict[BufferView, int] = field(default_factory=dict[BufferView, int])

    def number(self, place: BufferView) -> int:
        return self.numbers.setdefault(place, len(self.numbers))

    def made(self) -> list[Buffer]:
        return [self._buffer(place) for place in self.numbers]

    def _buffer(self, place: BufferView) -> Buffer:
        storage = place.storage
        offset = self.offsets.get(storage, Dim(()))
        return Buffer(storage.dtype, place.shape, storage.role, storage.name, storage.index, storage.resource, offset)


@dataclass(slots=True)
class Finisher:
    """Numbers kernels of a program; one for all entries."""

    program: Program
    in_place: bool = True
    kernels: dict[Kernel, int] = field(default_factory=dict[Kernel, int])
    measured: frozenset[Symbol] = frozenset()  # the sizes that the entry at hand finds out

    def steps(self, drafts: list[UnallocatedStep], buffers: Buffers) -> tuple[Step, ...]:
        return tuple(self._step(draft, buffers) for draft in drafts)

    def _step(self, draft: UnallocatedStep, buffers: Buffers) -> Step:
        match draft:
            case DraftLaunch():
                return self._launch(draft, buffers)
            case DraftIf():
                then, otherwise = self.steps(draft.then, buffers), self.steps(draft.otherwise, buffers)
                return If(buffers.number(draft.condition), then, otherwise)
            case DraftWhile():
                before = self.steps(draft.condition, buffers)
                return While(before, buffers.number(draft.test), self.steps(draft.body, buffers))
            case DraftFor():
                index, start, stop = (buffers.number(place) for place in (draft.index, draft.start, draft.stop))
                return For(index, start, stop, self.steps(draft.body, buffers))
            case DraftLocked():
                return Locked(draft.containers, draft.exclusive, self.steps(draft.body, buffers))
            case DraftCopy():
                return Copy(buffers.number(draft.source), buffers.number(draft.target))
            case DraftCheck():
                return Check(buffers.number(draft.condition), draft.fault)
            case DraftMeasure():
                return Measure(draft.symbol, buffers.number(draft.source), draft.most, draft.fault)
            case DraftHostCall():
                inputs, outputs = (
                    tuple(buffers.number(place) for place in places) for places in (draft.inputs, draft.outputs)
                )
                return HostCall(draft.site, inputs, outputs)

    def _launch(self, draft: DraftLaunch, buffers: Buffers) -> Launch:
        kernel, sizes = canonical(never_negative(draft.kernel, self.measured))
        number = self.kernels.setdefault(kernel, len(self.kernels))
        if number == len(self.program.kernels):
            self.program.kernels.append(kernel)
        bound = tuple(buffers.number(place) for place in draft.places)
        return Launch(number, bound, sizes, draft.names, draft.span, draft.reasons)


def never_negative(kernel: Kernel, measured: frozenset[Symbol]) -> Kernel:
    """The kernel with extents of at least 0, where sizes that only the run finds out are subtracted from something or
    something from them: the check that they do not come to less may be missing from a partial run."""

    def clamped(axis: Axis) -> Axis:
        extent = axis.extent
        falls = any(coefficient < 0 for _, coefficient in extent.terms)
        return replace(axis, extent=maximum(extent, ZERO)) if falls and extent.symbols() & measured else axis

    axes = tuple(map(clamped, kernel.axes)) if measured else kernel.axes
    return kernel if axes == kernel.axes else replace(kernel, axes=axes)
