"""What must hold behind each stage of lowering; a breach is a `LoweringError`, a bug of the stage before.

- behind fuse: kernels are whole (every operand fits its memory, instructions name earlier ones, stores and loads go to
  slots that allow them, with an index for each axis), and nothing of a call's own memory is read before it is written;
- behind schedule: so it is in the order of the steps, loops count in registers of one type, and state that other calls
  may use at the same time is touched under its lock alone;
- behind buffers: see `dfc.lower.buffers.verify`.

The checks share no code with the stages they check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from dfc.kernels.body import Affine, AxisIndex, Computed, Index, Instruction, Load
from dfc.kernels.form import ContractKernel, Kernel, LoopKernel, Operand, RoutineKernel, RowBlockKernel, Store
from dfc.kernels.program import BufferRole
from dfc.kernels.routines import routine_kernel
from dfc.lower.fuse.fused import (
    Fused,
    FusedBlock,
    FusedCheck,
    FusedCheckpoint,
    FusedEffect,
    FusedFor,
    FusedHostCall,
    FusedIf,
    FusedKernel,
    FusedMeasure,
    FusedNode,
    FusedWhile,
    kernels,
)
from dfc.lower.schedule.schedule import Scheduled, ScheduledEntry
from dfc.lower.schedule.unallocated import (
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
    inner_blocks,
    own_views,
    walk,
)
from dfc.lower.storage import BufferView, Storage


class LoweringError(Exception):
    """Something a stage of lowering has made is not what it guarantees."""


def verify_fused(fused: Fused) -> None:
    """What must hold behind fuse."""
    for entry in fused.entries:
        for kernel in kernels(entry.block):
            verify_kernel(kernel.kernel, kernel.views, ", ".join(kernel.names))
        _Written(entry.entry.name).fused(entry.block)


def verify_scheduled(scheduled: Scheduled) -> None:
    """What must hold behind schedule."""
    for entry in scheduled.entries:
        for step in walk(entry.steps):
            if isinstance(step, UnallocatedLaunch):
                verify_kernel(step.kernel, step.views, ", ".join(step.names))
            elif isinstance(step, UnallocatedFor):
                types = {view.dtype for view in (step.index, step.start, step.stop)}
                require(len(types) == 1 and not step.index.shape, f"a loop counts in {step.index.storage}")
            elif isinstance(step, UnallocatedParallel):
                _apart(step)
        _Written(entry.entry.name).steps(entry.steps)
        _locked(scheduled, entry)


def _apart(step: UnallocatedParallel) -> None:
    """Branches write what no other one uses, and nothing that outlives the call."""
    used = [{view.storage for each in walk(branch) for view in own_views(each)} for branch in step.branches]
    for number, branch in enumerate(step.branches):
        others = {storage for index, each in enumerate(used) if index != number for storage in each}
        for each in walk(branch):
            alone = not isinstance(each, UnallocatedHostCall | UnallocatedLocked | UnallocatedMeasure)
            require(alone, f"a branch has a step that stands alone: {type(each).__name__}")
            for storage in _changed(each):
                require(storage not in others, f"two branches use {storage}, and one writes it")
                require(storage.role is not BufferRole.RESOURCE, f"a branch writes {storage}")


def _changed(step: UnallocatedStep) -> list[Storage]:
    """What a step itself writes."""
    match step:
        case UnallocatedLaunch():
            pairs = zip(step.kernel.operands, step.views, strict=True)
            return [view.storage for operand, view in pairs if operand.access != "read"]
        case UnallocatedCopy():
            return [step.target.storage]
        case UnallocatedFor():
            return [step.index.storage]
        case _:
            return []


def require(holds: bool, what: str) -> None:
    """Raises `LoweringError` with what is wrong unless it holds."""
    if not holds:
        raise LoweringError(what)


# ------------------------------------------------------------------ kernels --


def verify_kernel(kernel: Kernel, views: Sequence[BufferView], name: str) -> None:
    """A kernel by itself, and its operands against the memory they are bound to."""
    require(len(kernel.operands) == len(views), f"{name}: {len(views)} views for {len(kernel.operands)} operands")
    for operand, view in zip(kernel.operands, views, strict=True):
        require(operand.dtype == view.dtype, f"{name}: {operand.dtype} is bound to {view.storage} of {view.dtype}")
        require(len(operand.shape) == len(view.shape), f"{name}: {view.storage} has another rank than its operand")
    verify_kernel_body(kernel, name)


def verify_kernel_body(kernel: Kernel, name: str) -> None:
    """Instructions, loads, stores and reductions of a kernel."""
    axes = len(kernel.axes)
    if isinstance(kernel, RowBlockKernel):
        _row_blocks(kernel, name)
        return
    if isinstance(kernel, RoutineKernel):
        require(kernel == routine_kernel(kernel.name, [one.shape for one in kernel.operands[:-1]]), f"{name}: sizes")
        return
    if isinstance(kernel, ContractKernel):
        for factor in (kernel.a, kernel.b):
            require(all(0 <= split.axis < axes for split in factor.splits), f"{name}: a factor splits no axis")
            sub_axes = sum(len(split.extents) for split in factor.splits)
            _indexed(kernel.operands, factor.operand, factor.index, axes + sub_axes, (), name)
            require(kernel.operands[factor.operand].access != "write", f"{name}: a factor is only written")
        _body(kernel, kernel.epilogue, kernel.stores, name)
        return
    require(0 <= kernel.outer <= axes, f"{name}: {kernel.outer} outer axes of {axes}")
    for stage in kernel.stages:
        require(all(kernel.outer <= axis < axes for axis in stage.axes), f"{name}: a stage has axes {stage.axes}")
        _body(kernel, stage.body, stage.stores, name)
        for reduction in stage.reductions:
            require(0 <= reduction.value < len(stage.body), f"{name}: a reduction of no instruction")


def _row_blocks(kernel: RowBlockKernel, name: str) -> None:
    """Steps along the same rows, which find in a panel only what earlier ones have put there in the row at hand."""
    operands, written = (*kernel.operands, *kernel.panels), set[int]()
    for step in kernel.steps:
        own = step.kernel
        verify_kernel_body(own, name)
        depth = isinstance(own, ContractKernel) and step.rows == own.k
        along = (*range(len(kernel.axes) - 1), step.rows)
        extents = [own.axes[axis].extent for axis in along]
        require(extents == [axis.extent for axis in kernel.axes], f"{name}: a step goes along other rows")
        require(len(step.operands) == len(own.operands), f"{name}: a step has {len(step.operands)} operands")
        for number, operand in zip(step.operands, own.operands, strict=True):
            require(0 <= number < len(operands), f"{name}: there is no operand {number}")
            whole = operands[number]
            require((operand.dtype, operand.shape) == (whole.dtype, whole.shape), f"{name}: a step has another operand")
            is_panel = number >= len(kernel.operands)
            require(not is_panel or operand.access != "read" or number in written, f"{name}: a panel is not written")
            require(not (is_panel and depth and operand.access != "read"), f"{name}: a panel is written out of its row")
        written |= {n for n, operand in zip(step.operands, own.operands, strict=True) if operand.access != "read"}
        panels = {own_ for own_, number in enumerate(step.operands) if number >= len(kernel.operands)}
        for operand, index in _all_indices(own):
            leading = [Affine(((axis, 1),)) for axis in along]
            at_row = operand not in panels or list(index[: len(along)]) == leading
            require(at_row, f"{name}: a panel is used in other rows than the one at hand")


def _all_indices(kernel: LoopKernel | ContractKernel) -> Iterator[tuple[int, tuple[Index, ...]]]:
    """Every operand that a kernel loads, stores or multiplies, and where."""
    bodies = [(kernel.epilogue, kernel.stores)] if isinstance(kernel, ContractKernel) else []
    bodies += [] if isinstance(kernel, ContractKernel) else [(stage.body, stage.stores) for stage in kernel.stages]
    for body, stores in bodies:
        yield from ((one.operation.operand, one.operation.index) for one in body if isinstance(one.operation, Load))
        yield from ((store.operand, store.index) for store in stores)
    if isinstance(kernel, ContractKernel):
        yield from ((factor.operand, factor.index) for factor in (kernel.a, kernel.b))


def _body(kernel: LoopKernel | ContractKernel, body: Sequence[Instruction], stores: Sequence[Store], name: str) -> None:
    axes = len(kernel.axes)
    for number, instruction in enumerate(body):
        earlier = body[:number]
        require(all(0 <= a < number for a in instruction.arguments), f"{name}: %{number} uses a later instruction")
        match instruction.operation:
            case Load(operand, index):
                _indexed(kernel.operands, operand, index, axes, earlier, name)
                require(kernel.operands[operand].access != "write", f"{name}: %{number} loads what is only written")
            case AxisIndex(axis):
                require(0 <= axis < axes, f"{name}: %{number} is axis {axis} of {axes}")
            case _:
                pass
    for store in stores:
        _indexed(kernel.operands, store.operand, store.index, axes, body, name)
        require(kernel.operands[store.operand].access != "read", f"{name}: stores to what is only read")
        require(0 <= store.value < len(body), f"{name}: a store of no instruction")


def _indexed(
    operands: Sequence[Operand],
    operand: int,
    index: Sequence[Index],
    axes: int,
    known: Sequence[Instruction],
    name: str,
) -> None:
    require(0 <= operand < len(operands), f"{name}: there is no operand {operand}")
    require(len(index) == len(operands[operand].shape), f"{name}: {len(index)} indices for {operands[operand].shape}")
    for each in index:
        match each:
            case Affine(terms):
                require(all(0 <= axis < axes for axis, _ in terms), f"{name}: an index along no axis")
            case Computed(instruction):
                require(0 <= instruction < len(known), f"{name}: an index by a later instruction")


# ----------------------------------------------------------- written, locked --


class _Written:
    """One walk in the order of execution: what of the call's own memory has been written so far."""

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._known: set[Storage] = set()

    def _read(self, views: Iterable[BufferView]) -> None:
        for view in views:
            if view.storage.role in (BufferRole.ARENA, BufferRole.REGISTER):
                require(view.storage in self._known, f"{self._entry}: {view.storage} is read before it is written")

    def _write(self, views: Iterable[BufferView]) -> None:
        self._known.update(view.storage for view in views)

    def _kernel(self, part: FusedKernel | UnallocatedLaunch) -> None:
        operands = list(zip(part.kernel.operands, part.views, strict=True))
        self._read(view for operand, view in operands if operand.access == "read")
        self._write(view for operand, view in operands if operand.access != "read")

    def fused(self, block: FusedBlock) -> None:
        for part in block:
            if isinstance(part, FusedKernel):
                self._kernel(part)
            else:
                self._node(part)

    def _node(self, part: FusedNode) -> None:
        match part:
            case FusedCheck():
                self._read([part.condition])
            case FusedMeasure():
                self._read([part.source])
            case FusedFor():
                self._read([part.start, part.stop])
                self._write([part.index])
                self.fused(part.body)
            case FusedWhile():
                self.fused(part.condition)
                self._read([part.test])
                self.fused(part.body)
            case FusedIf():
                self._read([part.condition])
                before = set(self._known)
                self.fused(part.then)
                then, self._known = self._known, before
                self.fused(part.otherwise)
                self._known &= then
            case FusedEffect():
                self._read(source for source, _ in part.copies)
                self._write(target for _, target in part.copies)
                self.fused(part.kernels)
            case FusedHostCall():
                self._read(part.inputs)
                self._write(part.outputs)
            case FusedCheckpoint():
                pass
            case _:
                assert_never(part)

    def steps(self, steps: Sequence[UnallocatedStep]) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: UnallocatedStep) -> None:
        match step:
            case UnallocatedLaunch():
                self._kernel(step)
            case UnallocatedCopy():
                self._read([step.source])
                self._write([step.target])
            case UnallocatedHostCall():
                self._read(step.inputs)
                self._write(step.outputs)
            case UnallocatedFor():
                self._read([step.start, step.stop])
                self._write([step.index])
                self.steps(step.body)
            case UnallocatedWhile():
                self.steps(step.condition)
                self._read([step.test])
                self.steps(step.body)
            case UnallocatedIf():
                self._read([step.condition])
                before = set(self._known)
                self.steps(step.then)
                then, self._known = self._known, before
                self.steps(step.otherwise)
                self._known &= then
            case _:
                self._read(own_views(step))
                for block in inner_blocks(step):
                    self.steps(block)


def _locked(scheduled: Scheduled, entry: ScheduledEntry) -> None:
    """State in containers that programs share, and all state of a concurrent entry, is touched under a lock only."""
    if entry.entry.is_test:
        return
    resources = scheduled.tables.resources
    shared = {
        name
        for name, resource in resources.items()
        if (entry.entry.concurrent and not entry.entry.readonly) or resource.container != "default"
    }
    pending: list[tuple[UnallocatedStep, frozenset[str]]] = [(step, frozenset()) for step in entry.steps]
    while pending:
        step, held = pending.pop()
        for view in own_views(step):
            name = view.storage.resource
            what = f"{entry.entry.name}: {name} is used without the lock of its container"
            require(name not in shared or scheduled.tables.lock_of(name) in held, what)
        inside = held.union(step.containers) if isinstance(step, UnallocatedLocked) else held
        pending += [(inner, inside) for block in inner_blocks(step) for inner in block]
