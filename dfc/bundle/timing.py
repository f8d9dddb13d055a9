"""Builds the same plan with a clock around each kernel: what profiles and traces need, and nobody else pays for.

    launch k    ->    call `tick` (begin), launch k, call `tick` (end)

Assumes a scheduled program. Guarantees the same steps in the same order, so the same numbers; branches that would run
at the same time run one after the other, so that what a kernel takes is its own. Each entry begins with a pair of calls
that has nothing between them: what it takes is what every other pair measures too much. A kernel that no line asks for
is filed under the entry's. The second of a pair says what the launch does and moves at least: formulas over the sizes
of the entry (`operations`, `bytes`), but where these are not known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.bundle.formulas import Names, entry_names, formula
from dfc.diagnostics.source import Span
from dfc.ir.dims import Dim
from dfc.kernels.operations import launch_operations
from dfc.kernels.program import (
    EntryProgram,
    For,
    HostCall,
    HostSite,
    If,
    Launch,
    Locked,
    Parallel,
    Program,
    SiteValue,
    Step,
    While,
    inner_steps,
)
from dfc.kernels.traffic import launch_bytes
from dfc.lower.legalise.meaning import meaning
from dfc_runtime.observe.kernel_times import BEGIN, BYTES, EMPTY, END, OPERATIONS, TICK


def timed(program: Program) -> Program:
    """The program with ticks; it is changed in place, and is the caller's alone."""
    signatures = {signature.name: signature for signature in program.signatures}
    for entry in program.entries:
        signature = signatures[entry.name]
        _Entry(program, entry, signature.span, entry_names(entry, signature)).run()
    return program


class _Entry:
    """One entry on its way. Pairs are numbered through the program: the number of its first site."""

    def __init__(self, program: Program, entry: EntryProgram, span: Span, names: Names) -> None:
        self._program = program
        self._entry = entry
        self._span = span
        self._size_names = names

    def run(self) -> None:
        empty = (self._tick(EMPTY, (), self._span), self._tick(END, (), self._span))
        self._entry.steps = (*empty, *self._steps(self._entry.steps))

    def _steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        timed_steps: list[Step] = []
        for step in steps:
            if isinstance(step, Launch):
                is_written = step.span is not None and not step.span.is_nowhere
                span = step.span if step.span is not None and is_written else self._span
                end = self._tick(END, step.names, span, self._work(step))
                timed_steps += [self._tick(BEGIN, step.names, span), step, end]
            elif isinstance(step, Parallel):
                timed_steps += self._steps(inner_steps(step))
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

    def _work(self, launch: Launch) -> tuple[tuple[str, SiteValue], ...]:
        """What a launch does and moves, as attributes: the tokens of a formula each."""
        kernel = self._program.kernels[launch.kernel]
        work = {
            OPERATIONS: launch_operations(kernel, launch, meaning),
            BYTES: launch_bytes(kernel, launch, self._entry.buffers),
        }
        return tuple((name, self._tokens(size)) for name, size in work.items() if size.symbols() <= {*self._size_names})

    def _tokens(self, size: Dim) -> tuple[str, ...]:
        return tuple(map(str, formula(size, self._size_names).tokens))

    def _tick(
        self, what: str, names: tuple[str, ...], span: Span, attributes: tuple[tuple[str, SiteValue], ...] = ()
    ) -> HostCall:
        site = HostSite(TICK, (("what", what), *attributes), (), (), names, span)
        return HostCall(self._program.host_site(site), (), ())
