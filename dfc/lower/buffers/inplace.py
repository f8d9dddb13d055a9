"""In-place writes: a value takes the memory of one that its kernel reads for the last time, at the same point.

Before: `launch relu(read h, write r)`, `h` dead afterwards.
After: `launch relu(update h)`, `r` in the memory of `h`.

Assumes lifetimes. Guarantees that the two operands become one slot of the kernel, so that a target never sees two slots
that overlap.
"""

from __future__ import annotations

from dfc.kernels.body import Load
from dfc.kernels.form import ContractKernel, Kernel, RoutineKernel, RowBlockKernel
from dfc.kernels.slots import merged
from dfc.lower.buffers.liveness import Lifetimes
from dfc.lower.schedule.unallocated import UnallocatedLaunch
from dfc.lower.storage import BufferView, Storage


def share(lifetimes: Lifetimes) -> dict[Storage, Storage]:
    """Which storage is written over which; changes the launches accordingly."""
    heirs: dict[Storage, Storage] = {}
    shared: set[Storage] = set()
    for time, launch in lifetimes.launches:
        pair = _pair(lifetimes, launch, time, shared)
        while pair is not None:
            old, new = pair
            before, after = launch.views[old].storage, launch.views[new].storage
            heirs[after] = before
            shared.add(before)
            launch.kernel, launch.views = merged(launch.kernel, launch.views, old, new)
            pair = _pair(lifetimes, launch, time, shared)
    return heirs


def _pair(lifetimes: Lifetimes, launch: UnallocatedLaunch, time: int, shared: set[Storage]) -> tuple[int, int] | None:
    """Slots of an operand that dies here and of one that is born here and may lie over it."""
    for old, dying in enumerate(launch.views):
        if not _dies(lifetimes, launch, dying, time) or dying.storage in shared:
            continue
        if launch.kernel.operands[old].access != "read":
            continue
        for new, born in enumerate(launch.views):
            written = launch.kernel.operands[new].access == "write"
            if written and _is_born(lifetimes, dying, born, time) and same_points(launch.kernel, old, new):
                return old, new
    return None


def _dies(lifetimes: Lifetimes, launch: UnallocatedLaunch, view: BufferView, time: int) -> bool:
    life = lifetimes.lives.get(view.storage)
    once = sum(other.storage is view.storage for other in launch.views) == 1
    return life is not None and life.last == time and once and view.whole


def _is_born(lifetimes: Lifetimes, dying: BufferView, born: BufferView, time: int) -> bool:
    life = lifetimes.lives.get(born.storage)
    if life is None or life.first != time or not born.whole:
        return False
    return (
        born.shape == dying.shape and born.dtype == dying.dtype and life.loops == lifetimes.lives[dying.storage].loops
    )


def same_points(kernel: Kernel, old: int, new: int) -> bool:
    """Whether every load of `old` is at the index of every store to `new`, and in no later stage."""
    if isinstance(kernel, RowBlockKernel | RoutineKernel):
        return False  # a step may read in other rows than it writes
    if isinstance(kernel, ContractKernel):
        if old in (kernel.a.operand, kernel.b.operand):
            return False
        bodies = [(kernel.epilogue, kernel.stores)]
    else:
        if kernel.ordered:
            return False
        bodies = [(stage.body, stage.stores) for stage in kernel.stages]
    loads = [
        (number, i.operation.index, i.operation.mask)
        for number, (body, _) in enumerate(bodies)
        for i in body
        if isinstance(i.operation, Load) and i.operation.operand == old
    ]
    stores = [(number, s.index) for number, (_, written) in enumerate(bodies) for s in written if s.operand == new]
    if len(stores) != 1 or stores[0][1] == ():
        return False
    view, index = stores[0]
    return all(at == index and number <= view and mask is None for number, at, mask in loads)
