"""Chains: kernels of a run that go along the same rows and hand each other values in the row at hand.

Assumes kernels in an order of execution with nothing between them. Guarantees of a chain that its lines are written by
one of its kernels, before the others read them, and that nobody else ever touches them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.kernels.body import Affine
from dfc.kernels.direct.geometry import windows
from dfc.kernels.form import ContractKernel, Kernel, RoutineKernel, RowBlockKernel
from dfc.kernels.row_blocks import Rows, along_rows
from dfc.lower.fuse.fused import FusedKernel
from dfc.lower.fuse.rows.runs import RunUses
from dfc.lower.storage import BufferView, Storage


@dataclass(frozen=True, slots=True)
class Chain:
    """`rows`: extents of batch axes and rows. `members`: kernels by their number in the run, as steps. `lines`: what
    they hand to each other, with the number of the kernel that writes it."""

    rows: tuple[Dim, ...]
    members: Mapping[int, Rows]
    lines: Mapping[Storage, int]


def seeds(uses: RunUses, tried: Collection[Storage] = ()) -> list[Storage]:
    """What products write row by row, but for what was tried before."""
    result: list[Storage] = []
    for storage, number in uses.writers.items():
        if storage in tried:
            continue
        part = uses.run[number]
        if isinstance(part.kernel, ContractKernel) and _is_matrix(part.kernel, part.views, storage):
            result.append(storage)
    return result


def _is_matrix(kernel: ContractKernel, views: Sequence[BufferView], storage: Storage) -> bool:
    """Whether a result of a product has its axes."""
    index = tuple(Affine(((axis, 1),)) for axis in range(kernel.k))
    return any(views[store.operand].storage is storage and store.index == index for store in kernel.stores)


Steps = dict[tuple[int, tuple[Dim, ...], tuple[int, ...]], tuple[object, Rows | None]]
"""What was asked of kernels before, by their identity; they are kept, so that no other one has it."""


def chain(uses: RunUses, seed: Storage, kept: Collection[Storage], steps: Steps) -> Chain | None:
    """What hangs together with a seed; None if that is the seed alone. What is `kept` lies in memory."""
    rows = seed.shape[:-1]
    lines = set(uses.with_rows(rows).difference(kept))
    while seed in lines:
        members, failed = _members(uses, rows, lines, seed, steps)
        if not failed:
            touched = {view.storage for number in members for view in uses.run[number].views} & lines
            own = {storage: uses.writers[storage] for storage in uses.writers if storage in touched}
            return Chain(rows, members, own) if len(members) > 1 else None
        lines -= failed
    return None


def _members(
    uses: RunUses, rows: tuple[Dim, ...], lines: set[Storage], seed: Storage, steps: Steps
) -> tuple[dict[int, Rows], set[Storage]]:
    """The kernels that touch the seed, and what they have in common with others, and so on; and the lines of those that
    do not go along the rows."""
    members: dict[int, Rows] = {}
    pending, seen = [seed], {seed}
    while pending:
        for number in uses.touching[pending.pop()]:
            if number in members:
                continue
            part = uses.run[number]
            panels = [slot for slot, view in enumerate(part.views) if view.storage in lines]
            step = _step(part, rows, tuple(panels), steps)
            if step is None:
                return {}, {part.views[slot].storage for slot in panels}
            members[number] = step
            new = {part.views[slot].storage for slot in panels} - seen
            seen |= new
            pending += sorted(new, key=lambda storage: storage.name)
    return dict(sorted(members.items())), set()


def _is_convolution(kernel: Kernel) -> bool:
    """Whether a kernel sums over windows of several elements, in sizes that are known: machines have loops of their own
    for these, which read an element of the image once for many windows."""
    seen = windows(kernel) if isinstance(kernel, ContractKernel) else None
    return seen is not None and seen.vertical.size * seen.horizontal.size > 1


def _step(part: FusedKernel, rows: tuple[Dim, ...], panels: tuple[int, ...], steps: Steps) -> Rows | None:
    kernel = part.kernel
    key = id(kernel), rows, panels
    if key not in steps:
        is_whole = isinstance(kernel, RowBlockKernel | RoutineKernel)
        steps[key] = kernel, None if is_whole or _is_convolution(kernel) else along_rows(kernel, rows, panels)
    return steps[key][1]
