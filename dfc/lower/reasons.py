"""Why kernels hold what they hold: the decisions of fusion for each launch, with what it moves, as text.

    entry train
      kernel 4: train/logits/rsqrt and 2 more, at least 256 bytes
        train/logits/rsqrt is computed once: moves 1.6 MB more, saves 4.0 M operations, with B = 64

Assumes a program behind `buffers`, whose launches still have their reasons. Text only: nothing reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dfc.kernels.form import Kernel
from dfc.kernels.program import EntryProgram, For, If, Launch, Locked, Program, Step, While
from dfc.kernels.traffic import launch_bytes

Schedule = Callable[[Kernel], str]


def explained(program: Program, name: str = "", schedule: Schedule = lambda _: "") -> str:
    """The kernels of each entry, in the order in which they run, with the reasons; with a `name` only those that
    compute a node, or give a reason, in whose name it occurs. `schedule`: what a target says of how it makes one."""
    blocks: list[str] = []
    for entry in program.entries:
        lines = [line for launch in _launches(entry.steps) for line in _lines(program, entry, launch, name, schedule)]
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


def _launches(steps: tuple[Step, ...]) -> Iterator[Launch]:
    for step in steps:
        match step:
            case Launch():
                yield step
            case If():
                yield from _launches((*step.then, *step.otherwise))
            case While():
                yield from _launches((*step.condition, *step.body))
            case For() | Locked():
                yield from _launches(step.body)
            case _:
                pass
