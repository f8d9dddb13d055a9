"""Draft steps over places become steps over numbered buffers; kernels are made canonical and shared."""

from __future__ import annotations

from dataclasses import dataclass, field

from dfc.ir.dims import Dim
from dfc.kernels.canonical import canonical
from dfc.kernels.form import Kernel
from dfc.kernels.program import Buffer, Check, Copy, For, Host, If, Launch, Locked, Program, Step, While
from dfc.passes.fuse.places import Place, Storage
from dfc.passes.schedule.draft import (
    Draft,
    DraftCheck,
    DraftCopy,
    DraftFor,
    DraftHost,
    DraftIf,
    DraftLaunch,
    DraftLocked,
    DraftWhile,
)


@dataclass(slots=True)
class Buffers:
    """The buffers of an entry, numbered by first use."""

    offsets: dict[Storage, Dim]
    numbers: dict[Place, int] = field(default_factory=dict[Place, int])

    def number(self, place: Place) -> int:
        return self.numbers.setdefault(place, len(self.numbers))

    def made(self) -> list[Buffer]:
        return [self._buffer(place) for place in self.numbers]

    def _buffer(self, place: Place) -> Buffer:
        storage = place.storage
        offset = self.offsets.get(storage, Dim(()))
        return Buffer(storage.dtype, place.shape, storage.role, storage.name, storage.index, storage.resource, offset)


@dataclass(slots=True)
class Finisher:
    """Numbers kernels of a program; one for all entries."""

    program: Program
    in_place: bool = True
    kernels: dict[Kernel, int] = field(default_factory=dict[Kernel, int])

    def steps(self, drafts: list[Draft], buffers: Buffers) -> tuple[Step, ...]:
        return tuple(self._step(draft, buffers) for draft in drafts)

    def _step(self, draft: Draft, buffers: Buffers) -> Step:
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
                return Locked((draft.container,), draft.exclusive, self.steps(draft.body, buffers))
            case DraftCopy():
                return Copy(buffers.number(draft.source), buffers.number(draft.target))
            case DraftCheck():
                return Check(buffers.number(draft.condition), draft.fault)
            case DraftHost():
                return Host(draft.kind, draft.path, draft.resources)

    def _launch(self, draft: DraftLaunch, buffers: Buffers) -> Launch:
        kernel, sizes = canonical(draft.kernel)
        number = self.kernels.setdefault(kernel, len(self.kernels))
        if number == len(self.program.kernels):
            self.program.kernels.append(kernel)
        bound = tuple(buffers.number(place) for place in draft.places)
        return Launch(number, bound, sizes, draft.names, draft.span, draft.reasons)
