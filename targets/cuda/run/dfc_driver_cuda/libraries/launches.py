"""Launches of a program that a library makes in place of a kernel: what is the same for products and convolutions.

Assumes a plan that was read, and one caller at a time with the device current. Guarantees that whatever a library
cannot do, or must not, is left to the kernels of the program, and that `notes` says of every launch that it was asked
for who makes it, and why. Addresses of the caller may change from call to call: what is chosen for them holds for each
multiple of 16.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from dfc_driver_cuda.libraries.native import LibraryError, Planned, Planner
from dfc_driver_cuda.libraries.product_costs import SHARE
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.graphs.library_calls import Operand, Refused
from dfc_runtime.graphs.memory_layout import Slot, padded
from dfc_runtime.plans.products import FinishPlan

CALLER_ALIGNMENT = 16
"""What addresses of the caller are multiples of."""

LARGEST_EXTENT = 2**31 - 1
MOST_NOTES = 1024
MOST_ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class NativeCall:
    """What a library is to do. `addresses` are those of its tensors, `offsets` what is added to them in bytes, for each
    of the library's calls. Sums that a kernel takes on lie at the start of the workspace: they have no address."""

    plan: Planned
    launches: NativeLaunches
    addresses: tuple[int | Slot, ...]
    offsets: tuple[tuple[int, ...], ...]
    uses: tuple[tuple[int, bool], ...]
    finish: tuple[FinishPlan, Operand] | None = None

    @property
    def workspace(self) -> int:
        return self._sums_bytes + self.plan.workspace

    @property
    def _sums_bytes(self) -> int:
        return padded(self.finish[1].size) if self.finish is not None else 0

    def queue(self, starts: Sequence[int], workspace: int, stream: int) -> None:
        own_starts = list(starts)
        if self.finish is not None:
            own_starts[self.launches.output(self.plan.shape)] = workspace
        for offsets in self.offsets:
            addresses = [start + offset for start, offset in zip(own_starts, offsets, strict=True)]
            self.launches.run(self.plan, addresses, workspace + self._sums_bytes, stream)

    def refuse(self, reason: str) -> Refused:
        return self.launches.refuse(self.plan.shape, reason)


class NativeLaunches(ABC):
    """What one library makes for one program on one device."""

    otherwise: ClassVar[str]
    """Who makes what the library does not."""

    def __init__(self, native: Planner[Any, Any]) -> None:
        self._native = native
        self._name = f"{native.name} {native.version()}"
        self._refused: dict[object, str] = {}
        self.memory = 1 << 62
        """Bytes of the device: sums that a kernel takes on are scratch memory."""
        self.notes: dict[str, str] = {}
        """Who makes each launch, by kernel and sizes; the first `MOST_NOTES` of them."""

    @abstractmethod
    def output(self, shape: Any) -> int:
        """The number of the tensor that is made."""

    def decided(self, kernel: str, sizes: Mapping[str, int], decide: Callable[[], NativeCall]) -> NativeCall | None:
        """The call, or None if the library cannot make it or must not: then the kernel does; either is noted."""
        where = ", ".join((kernel, *(f"{name}={size}" for name, size in sizes.items())))
        try:
            call = decide()
        except (LibraryError, ValueError) as problem:
            self._note(where, f"{self.otherwise}, because {problem}")
            return None
        self._note(where, self._name + (", and a kernel after it" if call.finish is not None else ""))
        return call

    def _note(self, where: str, who: str) -> None:
        if where in self.notes or len(self.notes) < MOST_NOTES:
            self.notes[where] = who

    def planned(self, shape: object) -> Planned:
        """What the library offers for a shape, unless it was refused."""
        if shape in self._refused:
            raise ValueError(self._refused[shape])
        return self._native.plan(shape)

    def check_sums(self, size: int) -> None:
        """`ValueError` if these are too many bytes of sums for a kernel to go on with."""
        if size > self.memory // SHARE:
            raise ValueError("its sums take too much memory to be made apart")

    def run(self, plan: Planned, addresses: Sequence[int], workspace: int, stream: int) -> None:
        """Queues the work on a stream; `Refused` if the library does not take it."""
        try:
            self._native.run(plan, addresses, workspace, stream)
        except LibraryError as problem:
            raise self.refuse(plan.shape, str(problem)) from None

    def refuse(self, shape: object, reason: str) -> Refused:
        """Never again with the library."""
        self._refused[shape] = reason
        return Refused(reason)

    def close(self) -> None:
        with suppress(LibraryError):  # of a device that has failed, and has told so
            self._native.close()


def alignment(address: int) -> int:
    """The largest power of two that divides an address, at most 256."""
    return min(MOST_ALIGNMENT, address & -address) if address else MOST_ALIGNMENT


def aligned(address: int | Slot, offset: int) -> int:
    """What the address is surely a multiple of."""
    return min(CALLER_ALIGNMENT, alignment(offset)) if isinstance(address, Slot) else alignment(address + offset)
