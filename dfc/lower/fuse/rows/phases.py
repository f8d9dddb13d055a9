"""Phases: which kernels of a chain can be one. A kernel that needs a finished result of the chain, by way of others or
of memory, cannot share a block of rows with what makes it: it belongs to a later phase.

    scores, p, y  |  to_y = f(y)  |  to_p = to_y @ v, to_v = p @ to_y, ..        p is computed again in the second phase

Assumes the chains of `chains`. Guarantees that phases, in their order, with the kernels of others where their phase
number says (before the phase of the same number), are an order of execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.rows.chains import Chain
from dfc.lower.fuse.rows.runs import RunUses, conflicts
from dfc.lower.storage import Storage


@dataclass(slots=True)
class Phases:
    """`numbers`: the phase of each kernel, from the first of the run. `again`: for each phase the kernels that it
    computes again; `repeated`: the lines that it needs them for."""

    numbers: list[int]
    again: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    repeated: dict[int, set[Storage]] = field(default_factory=dict[int, set[Storage]])


def phases(uses: RunUses, chain: Chain) -> Phases | Storage:
    """The phases of kernels up to the last of the chain; or a line that has to be kept, because what it comes from
    cannot be computed again."""
    result = Phases(phase_numbers(uses, chain, max(chain.members) + 1))
    for number in chain.members:
        phase = result.numbers[number]
        for storage, access in uses.touched[number]:
            if access == "read" and storage in chain.lines and result.numbers[chain.lines[storage]] < phase:
                failed = _repeat(uses, chain, storage, phase, result)
                if failed is not None:
                    return storage
    return result


def phase_numbers(uses: RunUses, chain: Chain, end: int) -> list[int]:
    """The phase of each kernel of the run before `end`: none begins before the first of the chain. What a kernel of the
    chain hands on in a line is of the same phase, all else that needs it of a later one."""
    numbers = [0] * end
    behind = [0] * end
    """The phase of those that need more of a kernel than a line."""
    for number in range(min(chain.members), end):
        is_member = number in chain.members
        phase = 0
        for one in uses.before[number]:  # a plain loop: it runs for every kernel of a run, and chain after chain
            needed = behind[one]
            if needed > phase and is_member and _by_lines(uses, chain, one, number):
                needed = numbers[one]
            if needed > phase:
                phase = needed
        numbers[number], behind[number] = phase, phase + is_member
    return numbers


def _by_lines(uses: RunUses, chain: Chain, one: int, other: int) -> bool:
    """Whether nothing but lines of a chain ties two kernels to their order."""
    if one not in chain.members:
        return False
    touched = {storage for storage, _ in uses.touched[other]}
    shared = {storage for storage, _ in uses.touched[one] if storage in touched and storage not in chain.lines}
    return not any(access != "read" and storage in shared for n in (one, other) for storage, access in uses.touched[n])


def _repeat(uses: RunUses, chain: Chain, line: Storage, phase: int, result: Phases) -> Storage | None:
    """Has a phase compute a line again, with all that it comes from; what stands in the way, if something does."""
    pending = [line]
    again, repeated = result.again.setdefault(phase, set()), result.repeated.setdefault(phase, set())
    while pending:
        storage = pending.pop()
        writer = chain.lines[storage]
        if result.numbers[writer] == phase or writer in again:
            continue
        again.add(writer)
        for touched, access in uses.touched[writer]:
            if touched in chain.lines:
                repeated.add(touched)
                pending += [touched] if access == "read" else []
            elif access != "read" or not _is_unchanged(uses, touched, writer):
                return storage
    return None


def _is_unchanged(uses: RunUses, storage: Storage, since: int) -> bool:
    """Whether what a kernel reads is still the same at the end of the run."""
    return storage.role is not BufferRole.RESOURCE and uses.last_written.get(storage, -1) < since


def in_order(uses: RunUses, groups: Sequence[Sequence[int]], numbers: Sequence[int]) -> list[int]:
    """The parts in an order of execution: kernels by number, group g as `len(run) + g`. Each stands where it stood, a
    group where its last kernel did, or as far behind as it has to. Nothing before the first kernel of the groups moves,
    and nothing behind the last: `numbers` has the phase of each kernel up to that one."""
    alone = len(uses.run)
    grouped = {number for members in groups for number in members}
    begin, end = min(grouped), max(grouped) + 1
    priority = [*range(alone), *(max(members) for members in groups)]
    parts = [number for number in range(begin, end) if number not in grouped]
    parts += [alone + number for number in range(len(groups))]

    def valid(part: int) -> tuple[int, bool, int]:
        if part < alone:
            return numbers[part], False, part
        return numbers[groups[part - alone][0]], True, part

    order = sorted(parts, key=valid)
    before = _before(uses, groups, order)
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
    return [*range(begin), *done, *range(end, alone)]


def _before(uses: RunUses, groups: Sequence[Sequence[int]], order: Sequence[int]) -> dict[int, set[int]]:
    """For each part those that have to be before it."""
    alone = len(uses.run)
    touched = [
        uses.touched[part] if part < alone else [pair for n in groups[part - alone] for pair in uses.touched[n]]
        for part in order
    ]
    earlier = conflicts(touched)
    return {part: {order[one] for one in numbers} for part, numbers in zip(order, earlier, strict=True)}
