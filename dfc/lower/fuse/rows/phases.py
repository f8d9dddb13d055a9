"""Phases: which kernels of a chain can be one. A kernel that needs a finished result of the chain, by way of others or
of memory, cannot share a block of rows with what makes it: it belongs to a later phase.

    scores, p, y  |  to_y = f(y)  |  to_p = to_y @ v, to_v = p @ to_y, ..        p is computed again in the second phase

Assumes the chains of `chains`. Guarantees that phases, in their order, with the kernels of others where their phase
number says (before the phase of the same number), are an order of execution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.rows.chains import Chain, Run
from dfc.lower.storage import Storage


@dataclass(slots=True)
class _Reached:
    """Up to which phase a storage is written and read, as those see it who have to come after that. `line` is the
    phase that writes a line of the chain."""

    written: int = 0
    read: int = 0
    line: int = 0


@dataclass(slots=True)
class Phases:
    """`numbers`: the phase of each kernel, from the first of the run. `again`: for each phase the kernels that it
    computes again; `repeated`: the lines that it needs them for."""

    numbers: list[int]
    again: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    repeated: dict[int, set[Storage]] = field(default_factory=dict[int, set[Storage]])


def phases(run: Run, chain: Chain) -> Phases | Storage:
    """The phases of kernels up to the last of the chain; or a line that has to be kept, because what it comes from
    cannot be computed again."""
    result = Phases(phase_numbers(run[: max(chain.members) + 1], chain))
    for number in chain.members:
        phase = result.numbers[number]
        for storage in _read(run, number):
            if storage in chain.lines and result.numbers[chain.lines[storage]] < phase:
                failed = _repeat(run, chain, storage, phase, result)
                if failed is not None:
                    return storage
    return result


def phase_numbers(run: Run, chain: Chain) -> list[int]:
    """The phase of each kernel: none begins before the first of the chain."""
    reached: dict[Storage, _Reached] = {}
    first = min(chain.members)
    numbers = [0] * first
    for number, part in enumerate(run[first:], first):
        is_member = number in chain.members
        phase = 0
        pairs = list(zip(part.kernel.operands, part.views, strict=True))
        for operand, view in pairs:
            known = reached.get(view.storage)
            if known is not None and is_member and view.storage in chain.lines:
                phase = max(phase, known.line)
            elif known is not None:
                phase = max(phase, known.written, known.read if operand.access != "read" else 0)
        numbers.append(phase)
        for operand, view in pairs:
            known = reached.setdefault(view.storage, _Reached())
            behind = phase + is_member
            known.read = max(known.read, behind)
            if operand.access != "read":
                known.written, known.line = max(known.written, behind), phase
    return numbers


def _read(run: Run, number: int) -> list[Storage]:
    part = run[number]
    pairs = zip(part.kernel.operands, part.views, strict=True)
    return [view.storage for operand, view in pairs if operand.access == "read"]


def _repeat(run: Run, chain: Chain, line: Storage, phase: int, result: Phases) -> Storage | None:
    """Has a phase compute a line again, with all that it comes from; what stands in the way, if something does."""
    pending = [line]
    again, repeated = result.again.setdefault(phase, set()), result.repeated.setdefault(phase, set())
    while pending:
        storage = pending.pop()
        writer = chain.lines[storage]
        if result.numbers[writer] == phase or writer in again:
            continue
        again.add(writer)
        part = run[writer]
        for operand, view in zip(part.kernel.operands, part.views, strict=True):
            if view.storage in chain.lines:
                repeated.add(view.storage)
                pending += [view.storage] if operand.access == "read" else []
            elif operand.access != "read" or not _is_unchanged(run, view.storage, writer):
                return storage
    return None


def _is_unchanged(run: Run, storage: Storage, since: int) -> bool:
    """Whether what a kernel reads is still the same at the end of the run."""
    return storage.role is not BufferRole.RESOURCE and not any(
        view.storage is storage and operand.access != "read"
        for part in run[since:]
        for operand, view in zip(part.kernel.operands, part.views, strict=True)
    )


def in_order(run: Run, groups: Sequence[Sequence[int]], numbers: Sequence[int]) -> list[int]:
    """The parts in an order of execution: kernels by number, group g as `len(run) + g`. Each stands where it stood, a
    group where its last kernel did, or as far behind as it has to."""
    group_of: Mapping[int, int] = {n: g for g, members in enumerate(groups) for n in members}
    priority = [*range(len(run)), *(max(members) for members in groups)]
    parts = [number for number in range(len(run)) if number not in group_of]
    parts += [len(run) + number for number in range(len(groups))]

    def valid(part: int) -> tuple[int, bool, int]:
        if part < len(run):
            return numbers[part], False, part
        return numbers[groups[part - len(run)][0]], True, part

    order = sorted(parts, key=valid)
    before = _conflicts(run, groups, order)
    done: dict[int, None] = {}
    pending = sorted(order, key=lambda part: priority[part], reverse=True)
    while pending:
        part = pending.pop()
        if part in done:
            continue
        missing = [one for one in before[part] if one not in done]
        if missing:
            pending += [part, *sorted(missing, key=lambda one: priority[one], reverse=True)]
        else:
            done[part] = None
    return list(done)


def _conflicts(run: Run, groups: Sequence[Sequence[int]], order: Sequence[int]) -> dict[int, set[int]]:
    """For each part those in front of it that touch the same memory, one of both writing."""
    writers: dict[Storage, int] = {}
    readers: dict[Storage, set[int]] = {}
    before: dict[int, set[int]] = {}
    for part in order:
        needed: set[int] = set()
        members = [part] if part < len(run) else groups[part - len(run)]
        touched = [pair for n in members for pair in zip(run[n].kernel.operands, run[n].views, strict=True)]
        for operand, view in touched:
            needed.update({writers[view.storage]} if view.storage in writers else ())
            if operand.access != "read":
                needed |= readers.get(view.storage, set())
        for operand, view in touched:
            if operand.access != "read":
                writers[view.storage] = part
                readers[view.storage] = set()
            readers.setdefault(view.storage, set()).add(part)
        before[part] = needed - {part}
    return before
