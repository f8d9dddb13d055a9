"""What runs after something of a call may have failed: kernels that must not write then, or whose results are seen.

Analysis of scheduled programs, for targets on which a call goes on behind a fault, as on a device that the host does
not ask in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dfc.kernels.program import (
    BufferRole,
    Check,
    Copy,
    For,
    HostCall,
    If,
    Launch,
    Locked,
    Measure,
    Parallel,
    Program,
    Step,
    While,
    inner_steps,
    walk,
)


def launched_after_faults(program: Program, faults: Callable[[int], bool]) -> frozenset[int]:
    """The kernels that a call may launch after something failed: they are to be guarded, so that nothing is written
    after a fault."""
    numbers: set[int] = set()
    for entry in program.entries:
        _after_faults(entry.steps, faults, numbers)
    return frozenset(numbers)


def _after_faults(steps: Sequence[Step], faults: Callable[[int], bool], numbers: set[int]) -> None:
    """Iterative. No iteration of a loop begins after a fault; but a condition is computed again at the end of one."""
    may_have_failed = False
    pending: list[Step] = list(reversed(steps))
    while pending:
        step = pending.pop()
        match step:
            case Launch():
                if may_have_failed:
                    numbers.add(step.kernel)
                may_have_failed = may_have_failed or faults(step.kernel)
            case Check() | Measure():
                may_have_failed = True
            case If():
                pending += (*reversed(step.otherwise), *reversed(step.then))
            case While():
                pending += (*reversed(step.condition), *reversed(step.body), *reversed(step.condition))
            case For() | Locked():
                pending += reversed(step.body)
            case Parallel():
                pending += reversed(inner_steps(step))
            case Copy() | HostCall():
                pass


def seen_after_faults(program: Program) -> Iterator[int]:
    """The kernels of launches that write what is seen even if the call fails."""
    for entry in program.entries:
        for step in walk(entry.steps):
            if isinstance(step, Launch):
                written = zip(step.buffers, program.kernels[step.kernel].operands, strict=True)
                if any(
                    o.access != "read" and entry.buffers[b].role in (BufferRole.RESOURCE, BufferRole.RESULT)
                    for b, o in written
                ):
                    yield step.kernel
