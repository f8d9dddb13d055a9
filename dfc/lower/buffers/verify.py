"""What must hold behind buffers: numbers are those of tables, operands have the types of their buffers, and what a step
reads from the arena is still there: written before, with no byte of it written for something else since.

The steps are followed in the order in which they run, a body of a loop twice (so that one iteration meets what the last
one has left), at sample sizes. The check shares no code with the planning of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from dfc.ir.dims import Dim, Symbol
from dfc.kernels.program import (
    Buffer,
    BufferRole,
    Check,
    Copy,
    EntryProgram,
    For,
    HostCall,
    If,
    Launch,
    Measure,
    Parallel,
    Program,
    Step,
    While,
    walk,
)
from dfc.lower.verify import require, verify_kernel_body

SAMPLES = (5, 64)
"""Values of every size at which bytes are compared."""

Content = tuple[str, int, int]
"""A value in the arena: the name of its memory, its first byte and the one behind its last."""


def verify_program(program: Program) -> None:
    """Raises `LoweringError` for the first thing that does not hold."""
    for number, kernel in enumerate(program.kernels):
        verify_kernel_body(kernel, f"kernel {number}")
    for entry in program.entries:
        _numbers(program, entry)
        for sample in SAMPLES:
            _Contents(program, entry, sample).follow(entry.steps)


def _numbers(program: Program, entry: EntryProgram) -> None:
    buffers = len(entry.buffers)
    for number in (*entry.arguments, *entry.results):
        require(-1 <= number < buffers, f"{entry.name}: there is no buffer {number}")
    for step in walk(entry.steps):
        if isinstance(step, Launch):
            _launch(program, entry, step)
        for number in (*_read(program, step), *_written(program, step)):
            require(0 <= number < buffers, f"{entry.name}: there is no buffer {number}")
        if isinstance(step, Check | Measure):
            require(0 <= step.fault < len(program.faults), f"{entry.name}: there is no fault {step.fault}")
        elif isinstance(step, HostCall):
            require(0 <= step.site < len(program.sites), f"{entry.name}: there is no host site {step.site}")


def _launch(program: Program, entry: EntryProgram, step: Launch) -> None:
    """A kernel that there is, with a buffer of its type and rank for each operand."""
    require(0 <= step.kernel < len(program.kernels), f"{entry.name}: there is no kernel {step.kernel}")
    operands = program.kernels[step.kernel].operands
    what = f"{entry.name}: {len(step.buffers)} buffers for {len(operands)} operands of kernel {step.kernel}"
    require(len(step.buffers) == len(operands), what)
    for operand, number in zip(operands, step.buffers, strict=True):
        require(0 <= number < len(entry.buffers), f"{entry.name}: there is no buffer {number}")
        own = entry.buffers[number]
        fits = own.dtype == operand.dtype and len(own.shape) == len(operand.shape)
        require(fits, f"{entry.name}: kernel {step.kernel} is launched with buffer {number} of {own.dtype}")


def _read(program: Program, step: Step) -> tuple[int, ...]:
    """Buffers whose content a step itself needs."""
    match step:
        case Launch():
            operands = program.kernels[step.kernel].operands
            return tuple(n for n, each in zip(step.buffers, operands, strict=True) if each.access == "read")
        case Copy() | Measure():
            return (step.source,)
        case If() | Check():
            return (step.condition,)
        case While():
            return (step.test,)
        case For():
            return (step.start, step.stop)
        case HostCall():
            return step.inputs
        case _:
            return ()


def _written(program: Program, step: Step) -> tuple[int, ...]:
    """Buffers that a step itself writes. One that is updated may be read as what lay there before."""
    match step:
        case Launch():
            operands = program.kernels[step.kernel].operands
            return tuple(n for n, each in zip(step.buffers, operands, strict=True) if each.access != "read")
        case Copy():
            return (step.target,)
        case For():
            return (step.index,)
        case HostCall():
            return step.outputs
        case _:
            return ()


class _Contents:
    """What is in the arena while the steps of an entry run, with one value for all sizes."""

    def __init__(self, program: Program, entry: EntryProgram, sample: int) -> None:
        self._program = program
        self._entry = entry
        sizes: dict[Symbol, int] = dict.fromkeys(entry.dims, sample)
        sizes.update((symbol, _at(most, sizes)) for symbol, most in entry.measured)
        self._end = _at(entry.arena, sizes)
        self._contents = [self._content(buffer, sizes) for buffer in entry.buffers]
        self._there: set[Content] = set()

    def _content(self, buffer: Buffer, sizes: Mapping[Symbol, int]) -> Content | None:
        if buffer.role is not BufferRole.ARENA:
            return None
        start = _at(buffer.offset, sizes)
        size = prod(max(_at(each, sizes), 0) for each in buffer.shape) * buffer.dtype.size
        return (buffer.name, start, start + size) if size else None

    def follow(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: Step) -> None:
        if isinstance(step, While):
            for _ in range(2):
                self.follow(step.condition)
                self._need(_read(self._program, step))
                self.follow(step.body)
            self.follow(step.condition)
            return
        self._need(_read(self._program, step))
        self._fill(_written(self._program, step))
        match step:
            case If():
                before = set(self._there)
                self.follow(step.then)
                then, self._there = self._there, before
                self.follow(step.otherwise)
                self._there &= then
            case For():
                self.follow(step.body)
                self.follow(step.body)
            case Parallel():
                self._parallel(step)
            case Launch() | Copy() | Check() | Measure() | HostCall():
                pass
            case _:
                self.follow(step.body)

    def _parallel(self, step: Parallel) -> None:
        """No branch writes bytes that another one uses; each finds what was there before all of them."""
        start, before, after = set(self._there), set(self._there), set[Content]()
        used = [self._ranges(branch, of_reads=True) for branch in step.branches]
        for number, branch in enumerate(step.branches):
            others = [each for index, ranges in enumerate(used) if index != number for each in ranges]
            for begin, end in self._ranges(branch, of_reads=False):
                apart = all(end <= first or last <= begin for first, last in others)
                require(apart, f"{self._entry.name}: branch {number} writes what another one uses")
            self._there = set(start)
            self.follow(branch)
            before &= self._there
            after |= self._there
        self._there = before | {each for each in after if each not in start}

    def _ranges(self, steps: Sequence[Step], *, of_reads: bool) -> set[tuple[int, int]]:
        """The bytes of the arena that steps write, with those that they read."""
        ranges: set[tuple[int, int]] = set()
        for step in walk(steps):
            numbers = _written(self._program, step) + (_read(self._program, step) if of_reads else ())
            contents = (self._contents[number] for number in numbers)
            ranges.update((start, end) for content in contents if content is not None for _, start, end in [content])
        return ranges

    def _need(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            content = self._contents[number]
            what = f"{self._entry.name}: buffer {number} is read where something else lies by then"
            require(content is None or content in self._there, what)

    def _fill(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            content = self._contents[number]
            if content is not None:
                _, start, end = content
                require(start >= 0 and end <= self._end, f"{self._entry.name}: buffer {number} is outside of the arena")
                self._there = {each for each in self._there if each[2] <= start or each[1] >= end}
                self._there.add(content)


def _at(size: Dim, sizes: Mapping[Symbol, int]) -> int:
    return size.evaluate({symbol: sizes[symbol] for symbol in size.symbols()})
