"""How long a step is predicted to take on one thread: operations and bytes at the rates of one core of a server.

Assumes scheduled steps, before memory is planned. Guarantees integer arithmetic over the steps alone, so that a program
has one schedule on every machine. What counts is how steps stand to each other and to what it costs to start a thread;
a core that is twice as fast changes neither much.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, dim, minimum, product
from dfc.kernels.form import LoopKernel, RowBlockKernel
from dfc.kernels.operations import launch_operations
from dfc.kernels.program import Buffer, BufferRole, Launch, Program
from dfc.kernels.traffic import launch_bytes
from dfc.lower.legalise.meaning import meaning
from dfc.lower.schedule.unallocated import (
    UnallocatedCopy,
    UnallocatedFor,
    UnallocatedIf,
    UnallocatedLaunch,
    UnallocatedStep,
    UnallocatedWhile,
)
from dfc.lower.storage import TYPICAL, BufferView, typical, typical_bytes

CONTRACTED = 20
"""Picoseconds of an operation of a product."""
ELEMENTWISE = 50
"""Picoseconds of an operation of other kernels, which often wait for divisions and conversions."""
BYTE = 25
"""Picoseconds of a byte from or to a cache."""
LAUNCH = 50_000
"""Picoseconds of starting a kernel, or an iteration of a loop."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicts the steps of a program; `tables` has the constants that loops count to."""

    tables: Program

    def time(self, steps: Sequence[UnallocatedStep]) -> int:
        """Picoseconds on one thread, with sizes, and counts of iterations, that only the run knows at 64."""
        return sum(map(self.step, steps))

    def step(self, step: UnallocatedStep) -> int:
        """The same for one step."""
        match step:
            case UnallocatedLaunch():
                return typical(launch_time(step))
            case UnallocatedCopy():
                return 2 * BYTE * typical_bytes(step.source.storage)
            case UnallocatedIf():
                return max(self.time(step.then), self.time(step.otherwise))
            case UnallocatedWhile():
                return TYPICAL * (self.time(step.condition) + self.time(step.body) + LAUNCH)
            case UnallocatedFor():
                return self._iterations(step) * (self.time(step.body) + LAUNCH)
            case _:
                return 0

    def _iterations(self, step: UnallocatedFor) -> int:
        start, stop = self._number(step.start), self._number(step.stop)
        return TYPICAL if start is None or stop is None else max(stop - start, 0)

    def _number(self, view: BufferView) -> int | None:
        """The value of a number that is known now."""
        if view.storage.role is not BufferRole.CONSTANT:
            return None
        return int(self.tables.constants[view.storage.index].array.item())


def launch_time(launch: UnallocatedLaunch) -> Dim:
    """Picoseconds of a launch on one thread, as a formula over the sizes of the entry."""
    views = launch.views
    buffers = [Buffer(view.dtype, view.shape, view.storage.role, view.storage.name) for view in views]
    bound = Launch(0, tuple(range(len(views))), ())
    rate = ELEMENTWISE if isinstance(launch.kernel, LoopKernel) else CONTRACTED
    operations = launch_operations(launch.kernel, bound, meaning) * rate
    moved = launch_bytes(launch.kernel, bound, buffers)
    if not isinstance(launch.kernel, RowBlockKernel):  # part of an operand may be all that is read of it
        points = product(axis.extent for axis in launch.kernel.axes)
        moved = minimum(moved, points * sum(view.dtype.size for view in views))
    return operations + moved * BYTE + dim(LAUNCH)
