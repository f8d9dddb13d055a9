"""Runs: kernels in an order of execution with nothing between them, and who of them touches which memory.

    0: q -> scores    1: scores -> p    2: p, v -> y        touching: scores 0 1, p 1 2    before: 1 after 0, 2 after 1

It is earlier out once for a run, whatever number of chains is looked for in it. Assumes an order of execution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.fused import FusedKernel
from dfc.lower.storage import BufferView, Storage

Run = Sequence[FusedKernel]


@dataclass(slots=True)
class RunUses:
    """`touched`: the storages of each kernel, with how it uses them, by operand. `touching`: the kernels of each
    storage, in order. `writers`: memory of the arena that kernels of the run alone touch, one of which writes all that
    others read, with the number of that one. `last_written`: the last kernel that writes a storage. `before`: for each
    kernel those in front of it that touch the same memory, one of both writing; not those that are before these."""

    run: Run
    touched: list[list[tuple[Storage, str]]]
    touching: dict[Storage, list[int]]
    writers: dict[Storage, int]
    last_written: dict[Storage, int]
    before: list[set[int]]
    _with_rows: dict[tuple[Dim, ...], frozenset[Storage]] = field(
        default_factory=dict[tuple[Dim, ...], frozenset[Storage]]
    )

    def with_rows(self, rows: tuple[Dim, ...]) -> frozenset[Storage]:
        """What has a writer, and these rows as its first axes."""
        known = self._with_rows.get(rows)
        if known is None:
            leading = len(rows)
            known = frozenset(storage for storage in self.writers if storage.shape[:leading] == rows)
            self._with_rows[rows] = known
        return known


def uses_of(run: Run, counts: Mapping[Storage, int]) -> RunUses:
    """`counts` has the number of views of each storage in the entry."""
    touched: list[list[tuple[Storage, str]]] = []
    touching: dict[Storage, list[int]] = {}
    last_written: dict[Storage, int] = {}
    for number, part in enumerate(run):
        pairs = [(view.storage, operand.access) for operand, view in zip(part.kernel.operands, part.views, strict=True)]
        touched.append(pairs)
        for storage, access in pairs:
            numbers = touching.setdefault(storage, [])
            if not numbers or numbers[-1] != number:
                numbers.append(number)
            if access != "read":
                last_written[storage] = number
    return RunUses(run, touched, touching, _writers(run, counts), last_written, conflicts(touched))


def _writers(run: Run, counts: Mapping[Storage, int]) -> dict[Storage, int]:
    views: dict[Storage, list[tuple[int, BufferView, str]]] = {}
    for number, part in enumerate(run):
        for operand, view in zip(part.kernel.operands, part.views, strict=True):
            if view.storage.role is BufferRole.ARENA:
                views.setdefault(view.storage, []).append((number, view, operand.access))
    writers: dict[Storage, int] = {}
    for storage, touched in views.items():
        first, view, access = touched[0]
        if access == "read" or len(touched) != counts[storage] or not view.whole:
            continue
        if all(other.shape == view.shape and mode == "read" and n > first for n, other, mode in touched[1:]):
            writers[storage] = first
    return writers


def conflicts(touched: Sequence[Sequence[tuple[Storage, str]]]) -> list[set[int]]:
    """For each part, by its number, those in front of it that touch the same memory, one of both writing; not those
    that have to be before these in any case. `touched` has what each part touches, in order."""
    writers: dict[Storage, int] = {}
    readers: dict[Storage, set[int]] = {}
    result: list[set[int]] = []
    for number, pairs in enumerate(touched):
        needed: set[int] = set()
        for storage, access in pairs:
            writer = writers.get(storage)
            if writer is not None:
                needed.add(writer)
            if access != "read" and storage in readers:
                needed |= readers[storage]
        for storage, access in pairs:
            if access != "read":
                writers[storage] = number
                readers[storage] = {number}
            elif storage in readers:
                readers[storage].add(number)
            else:
                readers[storage] = {number}
        result.append(needed)
    return result
