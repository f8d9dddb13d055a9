"""How the steps of an entry are cut into functions, and which scalars live in memory because of it.

For targets that make one native function of an entry: long lists of steps become functions of their own, since the time
of compilers grows faster than the length of a function; so does each of several branches. Guarantees that the cut
depends on the steps alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.program import (
    BufferRole,
    Check,
    Copy,
    EntryProgram,
    For,
    HostCall,
    HostSite,
    If,
    Launch,
    Locked,
    Measure,
    Parallel,
    Step,
    While,
    inner_steps,
)

LONGEST = 96
"""Steps in one function."""


@dataclass(eq=False, slots=True)
class Outlined:
    """Steps that are a function of their own; `function` is its name once it is built. `in_branch`: whether other steps
    may run at the same time."""

    steps: tuple["AnyStep", ...]
    function: str = ""
    in_branch: bool = False


AnyStep = Step | Outlined


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """The steps of an entry's function, and the registers that live in scratch memory: buffer -> offset."""

    steps: tuple[AnyStep, ...]
    spilled: dict[int, int]
    spill_bytes: int


def lay_out(entry: EntryProgram) -> EntryLayout:
    """The steps cut into functions, and memory for registers that several of these use."""
    outlined = outline(entry.steps)
    uses: Counter[int] = Counter()
    for steps in functions(outlined):
        numbers = {number for step in direct_steps(steps) for number in buffers_of(step)}
        uses.update(number for number in numbers if entry.buffers[number].role is BufferRole.REGISTER)
    spilled = sorted(number for number, count in uses.items() if count > 1)
    return EntryLayout(outlined, {number: 8 * i for i, number in enumerate(spilled)}, -(-8 * len(spilled) // 64) * 64)


def outline(steps: Sequence[AnyStep]) -> tuple[AnyStep, ...]:
    """The same steps with at most `LONGEST` in a row, the rest in functions."""
    current = [_outline_inside(step) for step in steps]
    while sum(map(_weight, current)) > LONGEST and len(current) > 1:
        groups = _groups(current)
        if len(groups) == len(current):
            break
        current = [Outlined(tuple(group)) if len(group) > 1 else group[0] for group in groups]
    return tuple(current)


def _groups(steps: Sequence[AnyStep]) -> list[list[AnyStep]]:
    groups: list[list[AnyStep]] = []
    room = 0
    for step in steps:
        if _weight(step) > room:
            groups.append([])
            room = LONGEST
        groups[-1].append(step)
        room -= _weight(step)
    return groups


def _outline_inside(step: AnyStep) -> AnyStep:
    if isinstance(step, If):
        return replace(step, then=_inside(step.then), otherwise=_inside(step.otherwise))
    if isinstance(step, While):
        return replace(step, condition=_inside(step.condition), body=_inside(step.body))
    if isinstance(step, Parallel):
        branches = [Outlined(outline(branch), in_branch=True) for branch in step.branches]
        return replace(step, branches=tuple(_held(one) for one in branches))
    return replace(step, body=_inside(step.body)) if isinstance(step, For | Locked) else step


def _inside(steps: Sequence[Step]) -> tuple[Step, ...]:
    return _held(*outline(steps))


def _held(*steps: AnyStep) -> tuple[Step, ...]:
    """As steps declare what they hold: whoever looks for functions among these takes them for `AnyStep` again."""
    return cast("tuple[Step, ...]", steps)


def _weight(step: AnyStep) -> int:
    return sum(1 for _ in direct_steps([step]))


def direct_steps(steps: Iterable[AnyStep]) -> Iterator[AnyStep]:
    """All steps of one function."""
    pending = list(steps)
    while pending:
        step = pending.pop()
        yield step
        pending.extend(() if isinstance(step, Outlined) else inner_steps(step))


def outlined_in(steps: Iterable[AnyStep]) -> list[Outlined]:
    """Functions called directly, in the order of the steps."""
    outlined = [step for step in direct_steps(steps) if isinstance(step, Outlined)]
    return list(reversed(outlined))


def functions(steps: Sequence[AnyStep]) -> Iterator[Sequence[AnyStep]]:
    """The steps of a function and of all functions it calls."""
    pending = [steps]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(one.steps for one in outlined_in(current))


def buffers_of(step: AnyStep) -> tuple[int, ...]:
    """Buffers a step itself names."""
    if isinstance(step, Launch):
        return step.buffers
    if isinstance(step, Copy):
        return (step.source, step.target)
    if isinstance(step, HostCall):
        return (*step.inputs, *step.outputs)
    if isinstance(step, Measure):
        return (step.source,)
    if isinstance(step, If | Check):
        return (step.condition,)
    if isinstance(step, While):
        return (step.test,)
    return (step.index, step.start, step.stop) if isinstance(step, For) else ()


def frame_words(steps: Sequence[AnyStep], sites: Sequence[HostSite]) -> int:
    """The longest frame of the launches and host calls of one function."""
    longest = 1
    for step in direct_steps(steps):
        if isinstance(step, Launch):
            longest = max(longest, len(step.buffers) + len(step.sizes))
        elif isinstance(step, HostCall):
            longest = max(longest, 1 + len(buffers_of(step)) + len(sites[step.site].varying_extents))
    return longest
