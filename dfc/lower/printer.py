"""Fused programs and scheduled steps as text, for people: kernels as the kernel printer writes them, memory by name.

    kernel 0 map(a: f32[B] read, b: f32[B] write) over i0 < B
      once:
        ...
    entry e
      kernel 0(x, y)

Guarantees that equal programs print equally, and a name of its own for every piece of memory of an entry; nothing reads
this form back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from dfc.kernels.form import Kernel
from dfc.kernels.printer import kernel_lines, table_lines, typed
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.fused import (
    Fused,
    FusedBlock,
    FusedCheck,
    FusedCheckpoint,
    FusedEffect,
    FusedEntry,
    FusedFor,
    FusedHostCall,
    FusedIf,
    FusedKernel,
    FusedMeasure,
    FusedNode,
    FusedWhile,
    blocks_of,
    kernels,
)
from dfc.lower.schedule.schedule import Scheduled, ScheduledEntry
from dfc.lower.schedule.unallocated import (
    UnallocatedCheck,
    UnallocatedCopy,
    UnallocatedFor,
    UnallocatedHostCall,
    UnallocatedIf,
    UnallocatedLaunch,
    UnallocatedLocked,
    UnallocatedMeasure,
    UnallocatedParallel,
    UnallocatedStep,
    UnallocatedWhile,
    walk,
)
from dfc.lower.storage import BufferView, Storage


def print_fused(fused: Fused) -> str:
    """All kernels as they are fused, then the blocks of every entry."""
    shown = _Kernels()
    entries = [line for each in fused.entries for line in ("", *_fused_entry(each, shown))]
    return _joined(f"fused program {fused.tables.name}", shown, entries, table_lines(fused.tables))


def print_scheduled(scheduled: Scheduled) -> str:
    """All kernels as they are launched, then the steps of every entry, over memory that has no address yet."""
    shown = _Kernels()
    entries = [line for each in scheduled.entries for line in ("", *_scheduled_entry(each, shown))]
    return _joined(f"scheduled program {scheduled.tables.name}", shown, entries, table_lines(scheduled.tables))


class _Kernels:
    """Kernels by number; equal ones have one."""

    def __init__(self) -> None:
        self.numbers: dict[Kernel, int] = {}

    def number(self, kernel: Kernel) -> int:
        return self.numbers.setdefault(kernel, len(self.numbers))


def _joined(head: str, shown: _Kernels, entries: Sequence[str], tables: Sequence[str]) -> str:
    lines = [head]
    for kernel, number in shown.numbers.items():
        lines += ["", *kernel_lines(kernel, number)]
    return "\n".join([*lines, *entries, *tables]) + "\n"


class _Memory:
    """Names for the memory of an entry: its own, with a number where two pieces have the same one."""

    def __init__(self) -> None:
        self._names: dict[Storage, str] = {}
        self._taken: set[str] = set()

    def name(self, view: BufferView) -> str:
        storage = view.storage
        name = self._names.get(storage)
        if name is None:
            preferred = name = storage.name or "_"
            number = 1
            while name in self._taken:
                number += 1
                name = f"{preferred}.{number}"
            self._taken.add(name)
            self._names[storage] = name
        return name if view.whole else f"{name} as {typed(view.dtype, view.shape)}"

    def names(self, views: Sequence[BufferView]) -> str:
        return ", ".join(map(self.name, views))

    def declared(self) -> Iterator[str]:
        for storage, name in self._names.items():
            where = storage.role.value if storage.role is not BufferRole.ARENA else "memory"
            yield f"  {where} {name}: {typed(storage.dtype, storage.shape)}"


def _fused_entry(fused: FusedEntry, shown: _Kernels) -> list[str]:
    memory = _Memory()
    for view in (*fused.arguments, *fused.results):
        if view is not None:
            memory.name(view)
    for kernel in kernels(fused.block):
        shown.number(kernel.kernel)
    body = list(_block(fused.block, shown, memory, 1))
    return [f"entry {fused.entry.name}", *memory.declared(), *body]


def _block(block: FusedBlock, shown: _Kernels, memory: _Memory, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for part in block:
        if isinstance(part, FusedKernel):
            yield indent + _launched(part, shown, memory)
        else:
            yield indent + _node(part, memory)
            if isinstance(part, FusedEffect):
                yield from _block(part.kernels, shown, memory, depth + 1)
                continue
            for number, inner in enumerate(blocks_of(part)):
                yield f"{indent}  block {number}:"
                yield from _block(inner, shown, memory, depth + 2)


def _launched(part: FusedKernel | UnallocatedLaunch, shown: _Kernels, memory: _Memory) -> str:
    names = f"  # {', '.join(part.names)}" if part.names else ""
    return f"kernel {shown.number(part.kernel)}({memory.names(part.views)}){names}"


def _node(part: FusedNode, memory: _Memory) -> str:
    head = f"{part.node.op} {part.node.name}"
    match part:
        case FusedCheck():
            return f"{head}({memory.name(part.condition)}) or fault {part.fault}"
        case FusedMeasure():
            return f"{head}({memory.name(part.source)}) or fault {part.fault}"
        case FusedIf():
            return f"{head}({memory.name(part.condition)})"
        case FusedWhile():
            return f"{head}() by {memory.name(part.test)}"
        case FusedFor():
            return f"{head}({memory.names([part.start, part.stop])}) by {memory.name(part.index)}"
        case FusedEffect(copies=copies):
            return _moved(head, [source for source, _ in copies], [target for _, target in copies], memory)
        case FusedHostCall():
            return _moved(head, part.inputs, part.outputs, memory)
        case FusedCheckpoint():
            return f"{head}()"
        case _:
            assert_never(part)


def _moved(head: str, inputs: Sequence[BufferView], outputs: Sequence[BufferView], memory: _Memory) -> str:
    results = f" to {memory.names(outputs)}" if outputs else ""
    return f"{head}({memory.names(inputs)}){results}"


def _scheduled_entry(scheduled: ScheduledEntry, shown: _Kernels) -> list[str]:
    memory = _Memory()
    for view in (*scheduled.arguments, *scheduled.results):
        if view is not None:
            memory.name(view)
    for step in walk(scheduled.steps):
        if isinstance(step, UnallocatedLaunch):
            shown.number(step.kernel)
    body = list(_steps(scheduled.steps, shown, memory, 1))
    return [f"entry {scheduled.entry.name}", *memory.declared(), *body]


def _steps(steps: Sequence[UnallocatedStep], shown: _Kernels, memory: _Memory, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for step in steps:
        head, blocks = _step(step, shown, memory)
        yield indent + head
        for title, block in blocks:
            yield from [f"{indent}{title}"] if title else []
            yield from _steps(block, shown, memory, depth + 1)


def _step(
    step: UnallocatedStep, shown: _Kernels, memory: _Memory
) -> tuple[str, list[tuple[str, list[UnallocatedStep]]]]:
    match step:
        case UnallocatedLaunch():
            return f"launch {_launched(step, shown, memory)}", []
        case UnallocatedParallel():
            return "parallel:", [(f"branch {number}:", branch) for number, branch in enumerate(step.branches)]
        case UnallocatedCopy():
            return f"copy {memory.name(step.source)} to {memory.name(step.target)}", []
        case UnallocatedIf():
            return f"if {memory.name(step.condition)}:", [("", step.then), ("else:", step.otherwise)]
        case UnallocatedWhile():
            return "while:", [("", step.condition), (f"holds {memory.name(step.test)}:", step.body)]
        case UnallocatedFor():
            bounds = f"from {memory.name(step.start)} to {memory.name(step.stop)}"
            return f"for {memory.name(step.index)} {bounds}:", [("", step.body)]
        case UnallocatedLocked():
            how = "alone" if step.exclusive else "shared"
            return f"locked {', '.join(step.containers)} {how}:", [("", step.body)]
        case UnallocatedCheck():
            return f"check {memory.name(step.condition)} or fault {step.fault}", []
        case UnallocatedMeasure():
            source = memory.name(step.source)
            return f"measure {step.symbol} = {source} at most {step.most} or fault {step.fault}", []
        case UnallocatedHostCall():
            outputs = f" to {memory.names(step.outputs)}" if step.outputs else ""
            return f"call host site {step.site}({memory.names(step.inputs)}){outputs}", []
