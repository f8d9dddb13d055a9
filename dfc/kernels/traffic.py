"""The least memory that calls of an entry move: what each launch has to read and write, each element once.

Assumes a scheduled program. Guarantees sums in the sizes of the entry. What a launch reads by computed indices counts
as often as it is read, but no more than there is. Caches may save some of it, and kernels that read an element again
and again (products in tiles) may move more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim, Symbol, dim, minimum, product
from dfc.kernels.body import Computed, Instruction, Load
from dfc.kernels.form import ContractKernel, Kernel, RoutineKernel, RowBlockKernel, Stage
from dfc.kernels.program import (
    Buffer,
    BufferRole,
    Copy,
    EntryProgram,
    For,
    If,
    Launch,
    Locked,
    Parallel,
    Program,
    Step,
    While,
    inner_steps,
)


@dataclass(slots=True)
class Moved:
    """So many launches and copies, and the bytes of memory that they read and write at least."""

    steps: int = 0
    size: Dim = ZERO

    def add(self, size: Dim) -> None:
        self.steps += 1
        self.size += size


@dataclass(frozen=True, slots=True)
class CallTraffic:
    """Bytes of feeds and results that are tensors or numbers; what a call moves once, and what one iteration of
    each of its loops does besides, one branch as well as the other."""

    feeds: Dim
    results: Dim
    once: Moved
    in_iterations: Moved


def call_traffic(program: Program, entry: EntryProgram) -> CallTraffic:
    """What a call of the entry moves."""
    once, in_iterations = Moved(), Moved()
    for step, is_inside in _steps(entry.steps, is_inside=False):
        moved = in_iterations if is_inside else once
        if isinstance(step, Launch):
            moved.add(launch_bytes(program.kernels[step.kernel], step, entry.buffers))
        else:
            moved.add(buffer_bytes(entry.buffers[step.source]) * 2)
    feeds = sum((buffer_bytes(entry.buffers[number]) for number in entry.arguments if number >= 0), ZERO)
    results = sum((buffer_bytes(entry.buffers[number]) for number in entry.results), ZERO)
    return CallTraffic(feeds, results, once, in_iterations)


def launch_bytes(kernel: Kernel, launch: Launch, buffers: Sequence[Buffer]) -> Dim:
    """Bytes that one launch has to move."""
    symbols = {Symbol(f"d{number}"): size for number, size in enumerate(launch.sizes)}
    looked_up = _looked_up(kernel)
    total = ZERO
    for slot, (operand, number) in enumerate(zip(kernel.operands, launch.buffers, strict=True)):
        if not _is_touched(kernel, slot):
            continue
        size = buffer_bytes(buffers[number])
        if slot in looked_up:
            read = product(kernel.axes[axis].extent for axis in looked_up[slot]).substitute(symbols)
            size = minimum(size, read * operand.dtype.size)
        total += size * 2 if operand.access == "update" and _reads_first(kernel, slot) else size
    return total


def buffer_bytes(buffer: Buffer) -> Dim:
    """Bytes of a buffer; what lives in registers has none."""
    return ZERO if buffer.role is BufferRole.REGISTER else product(buffer.shape) * dim(buffer.dtype.size)


def _is_touched(kernel: Kernel, slot: int) -> bool:
    """Whether an operand is more than room for rows that are too long for a cache, as row blocks ask for, or for what
    a routine has in mind."""
    if isinstance(kernel, RoutineKernel):
        return slot < len(kernel.operands) - 1
    return not isinstance(kernel, RowBlockKernel) or any(slot in step.operands for step in kernel.steps)


def _reads_first(kernel: Kernel, slot: int) -> bool:
    """Whether what was there before is read: some kernels read only what they have written themselves."""
    if isinstance(kernel, RowBlockKernel):
        return any(
            operand == slot and step.kernel.operands[own].access != "write" and _reads_first(step.kernel, own)
            for step in kernel.steps
            for own, operand in enumerate(step.operands)
        )
    if isinstance(kernel, RoutineKernel):
        return False
    if isinstance(kernel, ContractKernel):
        return any(load.operand == slot for load in _in(kernel.epilogue))
    for stage in kernel.stages:
        if any(load.operand == slot for load in _in(stage.body)):
            return True
        if any(store.operand == slot for store in stage.stores):
            return any(store.operand == slot and store.combine for store in stage.stores)
    return True


def _looked_up(kernel: Kernel) -> dict[int, tuple[int, ...]]:
    """The operands that are only read, at computed indices, with the axes at whose points that is."""
    rows: dict[int, tuple[int, ...]] = {}
    others: set[int] = set()
    for load, axes in _loads(kernel):
        if any(isinstance(index, Computed) for index in load.index) and load.operand not in rows:
            rows[load.operand] = axes
        else:
            others.add(load.operand)
    read = {slot for slot, operand in enumerate(kernel.operands) if operand.access == "read"}
    return {slot: axes for slot, axes in rows.items() if slot in read - others}


def _loads(kernel: Kernel) -> Iterator[tuple[Load, tuple[int, ...]]]:
    if isinstance(kernel, RowBlockKernel | RoutineKernel):
        return  # each operand counts once, whatever the steps pick of it
    if isinstance(kernel, ContractKernel):
        yield from ((load, tuple(range(len(kernel.axes) - 1))) for load in _in(kernel.epilogue))
        return
    for stage in kernel.stages:
        yield from ((load, _axes(kernel.outer, stage)) for load in _in(stage.body))


def _axes(outer: int, stage: Stage) -> tuple[int, ...]:
    return (*range(outer), *stage.axes)


def _in(body: Sequence[Instruction]) -> Iterator[Load]:
    return (each.operation for each in body if isinstance(each.operation, Load))


def _steps(steps: Sequence[Step], *, is_inside: bool) -> Iterator[tuple[Launch | Copy, bool]]:
    """Launches and copies, and whether they are in a loop."""
    for step in steps:
        match step:
            case Launch() | Copy():
                yield step, is_inside
            case If():
                yield from _steps((*step.then, *step.otherwise), is_inside=is_inside)
            case While():
                yield from _steps((*step.condition, *step.body), is_inside=True)
            case For():
                yield from _steps(step.body, is_inside=True)
            case Locked():
                yield from _steps(step.body, is_inside=is_inside)
            case Parallel():
                yield from _steps(inner_steps(step), is_inside=is_inside)
            case _:
                pass
