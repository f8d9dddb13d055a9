"""Where native code asks whether it is to stop, and what has to be put back if it is.

A call that is interrupted leaves state as it was. It asks before kernels and in every iteration of a loop:

    launch 0            asks                      asks
    launch 1 writes w   asks                      while ..                asks
    launch 2            does not ask                launch 1 writes w     asks
    launch 3 writes b   does not ask              launch 3 writes b       does not ask

A put into a queue and a take out of one may wait, and ask meanwhile: they count as loops. Runners are stopped between
two iterations, or where they wait, and nothing of theirs is put back.

Once a call without further loops has begun to write, it does not ask any more: what is left is the rest of one pass.
What is written before the end of the last loop is copied when the call begins. Where that would cost more than it is
worth (a loop that writes a few rows of a large variable), and where other calls may have seen it already (concurrent
entries, shared containers), the variable keeps what was written.
"""

from collections.abc import Iterator, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.body import Computed
from dfc.kernels.form import ContractKernel, Kernel, RoutineKernel, RowBlockKernel
from dfc.kernels.program import (
    BufferRole,
    Copy,
    EntryProgram,
    EntrySignature,
    For,
    HostCall,
    Launch,
    Locked,
    Program,
    While,
    inner_steps,
    is_own_lock,
)
from dfc.kernels.programs.outline import AnyStep, Outlined

MOST_COPIED = 256 << 10
"""Bytes of a variable that is copied though loops write a part of it only: some 15 microseconds."""
_RESTORE = "checkpoint_restore"
_WAITING = frozenset({"queue_put", "queue_take", "queue_take_up_to", "mutex_acquire"})


@dataclass(frozen=True, slots=True)
class Polling:
    """`silent` are the steps (by identity) that do not ask, `first_silent` the first of them, or 0; `copied` the
    variables to copy before a call, `kept` those that an interrupted call may leave changed."""

    silent: frozenset[int] = frozenset()
    first_silent: int = 0
    copied: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def plan_polling(program: Program, number: int, steps: Sequence[AnyStep]) -> Polling:
    """For the steps of one entry, as they are laid out in functions."""
    signature = program.signatures[number] if program.signatures else None
    if signature is not None and signature.copies:
        return Polling()
    writes = _Writes(program, program.entries[number], signature)
    units = list(_units(steps))
    last = max((index for index, unit in enumerate(units) if _asks(program, unit)), default=-1)
    early: dict[str, bool] = {}
    for unit in units[: last + 1]:
        for name, whole in writes.of(unit):
            early[name] = early.get(name, True) and whole
    silent, first = _silent(units[last + 1 :], writes, dirty=bool(early))
    copied = [name for name, whole in early.items() if writes.is_own(name) and (whole or writes.is_small(name))]
    return Polling(silent, first, tuple(sorted(copied)), tuple(sorted(set(early) - set(copied))))


def _silent(units: Sequence[AnyStep], writes: "_Writes", *, dirty: bool) -> tuple[frozenset[int], int]:
    """The steps behind the last loop that do not ask, and the first of them. A kernel that writes may ask before."""
    silent, first = set[int](), 0
    for unit in units:
        changes = any(True for _ in writes.of(unit))
        if dirty or changes:
            first = first or id(unit)
            silent.update(id(each) for each in _all_steps([unit]) if dirty or not isinstance(unit, Launch))
        dirty = dirty or changes
    return frozenset(silent), first


class _Writes:
    """What steps of an entry write to state: names, and whether all of the variable is written."""

    def __init__(self, program: Program, entry: EntryProgram, signature: EntrySignature | None) -> None:
        self._program, self._entry, self._signature = program, entry, signature

    def is_own(self, name: str) -> bool:
        """Whether no other call can have seen it meanwhile, but for readonly ones."""
        shared = self._signature is not None and self._signature.concurrent
        return not shared and is_own_lock(self._program.lock_of(name))

    def is_small(self, name: str) -> bool:
        """Whether a copy costs next to nothing."""
        resource = self._program.resources[name]
        count = 1
        for extent in resource.type.shape:
            count *= extent.constant or 1
        return count * resource.type.machine.size <= MOST_COPIED

    def of(self, unit: AnyStep) -> Iterator[tuple[str, bool]]:
        for step in _all_steps([unit]):
            for number, whole in self._buffers(step):
                buffer = self._entry.buffers[number]
                if buffer.role is BufferRole.RESOURCE:
                    yield buffer.resource, whole
            if isinstance(step, HostCall) and self._program.sites[step.site].kind == _RESTORE:
                yield from ((name, True) for name in self._program.resources)

    def _buffers(self, step: AnyStep) -> Iterator[tuple[int, bool]]:
        if isinstance(step, Copy):
            yield step.target, True
        elif isinstance(step, HostCall):
            yield from ((number, True) for number in step.outputs)
        elif isinstance(step, Launch):
            kernel = self._program.kernels[step.kernel]
            for position, (number, operand) in enumerate(zip(step.buffers, kernel.operands, strict=True)):
                if operand.access != "read":
                    yield number, _is_whole(kernel, position)


def _is_whole(kernel: Kernel, operand: int) -> bool:
    """Whether a kernel goes through all of an operand that it writes: an axis of its own for each, from the start."""
    if isinstance(kernel, RowBlockKernel):
        return any(
            _is_whole(step.kernel, own) for step in kernel.steps for own, n in enumerate(step.operands) if n == operand
        )
    if isinstance(kernel, RoutineKernel):
        return True
    stores = kernel.stores if isinstance(kernel, ContractKernel) else [s for each in kernel.stages for s in each.stores]
    for store in stores:
        if store.operand != operand:
            continue
        for index, extent in zip(store.index, kernel.operands[operand].shape, strict=True):
            if isinstance(index, Computed) or len(index.terms) != 1:
                return False
            if kernel.axes[index.terms[0][0]].extent != extent:
                return False
    return True


def _units(steps: Sequence[AnyStep]) -> Iterator[AnyStep]:
    """The steps one after the other, whatever functions and locks they are in."""
    for step in steps:
        if isinstance(step, Outlined):
            yield from _units(step.steps)
        elif isinstance(step, Locked):
            yield from _units(step.body)
        else:
            yield step


def _all_steps(steps: Sequence[AnyStep]) -> Iterator[AnyStep]:
    """These steps and all inside them."""
    pending = list(steps)
    while pending:
        step = pending.pop()
        yield step
        pending.extend(step.steps if isinstance(step, Outlined) else inner_steps(step))


def _asks(program: Program, unit: AnyStep) -> bool:
    """Whether there are questions in the midst of a step."""
    return any(
        isinstance(step, While | For) or (isinstance(step, HostCall) and program.sites[step.site].kind in _WAITING)
        for step in _all_steps([unit])
    )
