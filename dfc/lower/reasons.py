"""Why kernels hold what they hold: the decisions of fusion for each launch, with what it moves, as text.

    entry train
      kernel 4: train/logits/rsqrt and 2 more, at least 256 bytes
        train/logits/rsqrt is computed once: moves 1.6 MB more, saves 4.0 M operations, with B = 64

Assumes a program behind `buffers`, whose launches still have their reasons. Text only: nothing reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dfc.kernels.form import Kernel
from dfc.kernels.program import EntryProgram, Launch, Parallel, Program, walk
from dfc.kernels.traffic import launch_bytes

Schedule = Callable[[Kernel], str]


def explained(program: Program, name: str = "", schedule: Schedule = lambda _: "") -> str:
    """The kernels of each entry, in the order in which they run, with the reasons; with a `name` only those that
    compute a node, or give a reason, in whose name it occurs. `schedule`: what a target says of how it makes one."""
    blocks: list[str] = []
    for entry in program.entries:
        lines: list[str] = []
        for step in walk(entry.steps):
            if isinstance(step, Launch):
                lines += _lines(program, entry, step, name, schedule)
            elif isinstance(step, Parallel) and not name:
                lines += _branches(step)
        if lines or not name:
            blocks.append("\n".join([f"entry {entry.name}", *lines]))
    return "\n\n".join(blocks) + "\n"


def _lines(program: Program, entry: EntryProgram, launch: Launch, name: str, schedule: Schedule) -> Iterator[str]:
    reasons = tuple(dict.fromkeys(launch.reasons))
    if name and not any(name in text for text in (*launch.names, *reasons)):
        return
    first, *others = launch.names or ("what has no name",)
    more = f" and {len(others)} more" if others else ""
    moved = launch_bytes(program.kernels[launch.kernel], launch, entry.buffers)
    yield f"  kernel {launch.kernel}: {first}{more}, at least {moved} bytes"
    sentence = schedule(program.kernels[launch.kernel])
    if sentence:
        yield f"    {first} {sentence}"
    yield from (f"    {reason}" for reason in reasons)


def _branches(step: Parallel) -> Iterator[str]:
    """What runs at the same time, and what that is predicted to save."""
    alone, together = sum(step.costs), max(step.costs)
    yield (
        f"  {len(step.branches)} branches at the same time: predicted {_microseconds(alone)} one after the other, "
        f"{_microseconds(max(together, alone // 2))} on two threads, {_microseconds(together)} on {len(step.branches)}"
    )
    for number, (branch, cost) in enumerate(zip(step.branches, step.costs, strict=True)):
        kernels = [each for each in walk(branch) if isinstance(each, Launch)]
        named = next((name for each in kernels for name in each.names), "what has no name")
        yield f"    branch {number}, {_microseconds(cost)}: {named}, {len(kernels)} kernels"


def _microseconds(picoseconds: int) -> str:
    return f"{picoseconds / 1e6:.0f} us"
