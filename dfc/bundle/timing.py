"""Builds the same plan with a clock around each kernel: what profiles and traces need, and nobody else pays for.

    launch k    ->    call `tick` (begin), launch k, call `tick` (end)

Assumes a scheduled program. Guarantees the same steps in the same order, so the same numbers. Each entry begins with a
pair of calls that has nothing between them: what it takes is what every other pair measures too much. A kernel that no
line asks for is filed under the entry's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.diagnostics.source import Span
from dfc.kernels.program import EntryProgram, For, HostCall, HostSite, If, Launch, Locked, Program, Step, While
from dfc_runtime.observe.measuring import BEGIN, EMPTY, END, TICK


def timed(program: Program) -> Program:
    """The program with ticks; it is changed in place, and is the caller's alone."""
    spans = {signature.name: signature.span for signature in program.signatures}
    for entry in program.entries:
        _Entry(program, entry, spans[entry.name]).run()
    return program


class _Entry:
    """One entry on its way. Pairs are numbered through the program: the number of its first site."""

    def __init__(self, program: Program, entry: EntryProgram, span: Span) -> None:
        self._program = program
        self._entry = entry
        self._span = span

    def run(self) -> None:
        empty = (self._tick(EMPTY, (), self._span), self._tick(END, (), self._span))
        self._entry.steps = (*empty, *self._steps(self._entry.steps))

    def _steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        timed_steps: list[Step] = []
        for step in steps:
            if isinstance(step, Launch):
                is_written = step.span is not None and not step.span.is_nowhere
                span = step.span if step.span is not None and is_written else self._span
                timed_steps += [self._tick(BEGIN, step.names, span), step, self._tick(END, step.names, span)]
            else:
                timed_steps.append(self._inside(step))
        return tuple(timed_steps)

    def _inside(self, step: Step) -> Step:
        match step:
            case If():
                return replace(step, then=self._steps(step.then), otherwise=self._steps(step.otherwise))
            case While():
                return replace(step, condition=self._steps(step.condition), body=self._steps(step.body))
            case For() | Locked():
                return replace(step, body=self._steps(step.body))
            case _:
                return step

    def _tick(self, what: str, names: tuple[str, ...], span: Span) -> HostCall:
        return HostCall(self._program.host_site(HostSite(TICK, (("what", what),), (), (), names, span)), (), ())
