"""schedule: fused blocks become structured steps, each effect under the lock it needs.

Before: kernels, a `for` node with a fused region.
After: `launch`, `for index in start..stop: launch, launch`; carried values in registers or in memory that the body
writes in place.

Assumes blocks in an order of execution. Guarantees the same order. It recurses into regions only, whose nesting the
front end bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import assert_never, cast

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes, MeasuredAttributes
from dfc.ir.dims import Dim, Symbol
from dfc.ir.graph import Entry
from dfc.ir.measured import measured
from dfc.kernels.program import PARALLEL, HostSite, Program, SiteValue
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
)
from dfc.lower.schedule.locks import lock, own_locks
from dfc.lower.schedule.order import order
from dfc.lower.schedule.parallel import find_parallel
from dfc.lower.schedule.turns import take_turns
from dfc.lower.schedule.unallocated import (
    UnallocatedCheck,
    UnallocatedCopy,
    UnallocatedFor,
    UnallocatedHostCall,
    UnallocatedIf,
    UnallocatedLaunch,
    UnallocatedLocked,
    UnallocatedMeasure,
    UnallocatedStep,
    UnallocatedWhile,
)
from dfc.lower.signatures import signature
from dfc.lower.storage import BufferView
from dfc.ops import registry
from dfc.ops.attributes import AssignAttributes, DrawAttributes, HostAttributes, ResourceAttributes
from dfc.ops.lowering.forms import HostCall


@dataclass(frozen=True, slots=True)
class ScheduledEntry:
    """The steps of an entry, with the buffer views of its arguments (None: a text) and results."""

    entry: Entry
    steps: list[UnallocatedStep]
    arguments: tuple[BufferView | None, ...]
    results: tuple[BufferView, ...]
    measured: Mapping[Symbol, Dim]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A program in steps. `tables` has constants, fault sites, sites of host calls, and signatures."""

    tables: Program
    entries: tuple[ScheduledEntry, ...]


def schedule(fused: Fused, *, forms: Collection[str] = ()) -> Scheduled:
    """The steps of a program; for a target that takes the form `parallel` with branches that may run at the same
    time."""
    signatures = [signature(each.entry) for each in fused.entries]
    tables = replace(fused.tables, sites=[], signatures=signatures)
    tables = replace(tables, own_locks=own_locks(tables))
    entries: list[ScheduledEntry] = []
    for each in fused.entries:
        steps = order(_Scheduler(tables).block(each.block))
        if PARALLEL in forms:
            steps = find_parallel(tables, steps)
        entries.append(_entry(each, steps))
    locked = lock(tables, [each.steps for each in entries])
    in_turn = [take_turns(tables, each.entry, steps) for each, steps in zip(entries, locked, strict=True)]
    return Scheduled(tables, tuple(replace(e, steps=steps) for e, steps in zip(entries, in_turn, strict=True)))


def _entry(fused: FusedEntry, steps: list[UnallocatedStep]) -> ScheduledEntry:
    return ScheduledEntry(fused.entry, steps, fused.arguments, fused.results, fused.measured)


class _Scheduler:
    """One entry on its way; numbers the sites of host calls in `tables`."""

    def __init__(self, tables: Program) -> None:
        self._tables = tables

    def block(self, block: FusedBlock) -> list[UnallocatedStep]:
        return [_launch(part) if isinstance(part, FusedKernel) else self._step(part) for part in block]

    def _step(self, part: FusedNode) -> UnallocatedStep:
        match part:
            case FusedCheck():
                return UnallocatedCheck(part.condition, part.fault)
            case FusedMeasure(node):
                attributes, symbol = node.attributes, measured(node)
                assert isinstance(attributes, MeasuredAttributes) and symbol is not None
                return UnallocatedMeasure(symbol, part.source, attributes.most, part.fault)
            case FusedIf():
                return UnallocatedIf(part.condition, self.block(part.then), self.block(part.otherwise))
            case FusedWhile():
                return UnallocatedWhile(self.block(part.condition), part.test, self.block(part.body))
            case FusedFor():
                return UnallocatedFor(part.index, part.start, part.stop, self.block(part.body))
            case FusedEffect():
                return self._isolated(part)
            case FusedHostCall():
                return self._host_call(part)
            case FusedCheckpoint():
                return self._checkpoint(part)
            case _:
                assert_never(part)

    def _isolated(self, part: FusedEffect) -> UnallocatedLocked:
        """A step that holds the lock of the state it is about, exclusive unless it only reads."""
        attributes = part.node.attributes
        assert isinstance(attributes, ResourceAttributes | AssignAttributes | DrawAttributes)
        is_read = isinstance(attributes, ResourceAttributes)
        copies = [UnallocatedCopy(source, target) for source, target in part.copies]
        lock_name = self._tables.lock_of(attributes.resource)
        return UnallocatedLocked((lock_name,), not is_read, [*copies, *map(_launch, part.kernels)])

    def _host_call(self, part: FusedHostCall) -> UnallocatedHostCall:
        node = part.node
        lowering = registry.record(node.op).lowering
        assert isinstance(lowering, HostCall)
        inputs, outputs = (tuple((view.dtype, view.shape) for view in views) for views in (part.inputs, part.outputs))
        kind, attributes = lowering.kind, tuple(_attributes(node.attributes))
        if part.fault is not None:
            attributes = (*attributes, ("fault", part.fault))
        site = self._tables.host_site(HostSite(kind, attributes, inputs, outputs, (node.name,), node.span))
        return UnallocatedHostCall(site, part.inputs, part.outputs)

    def _checkpoint(self, part: FusedCheckpoint) -> UnallocatedHostCall:
        node = part.node
        assert isinstance(node.attributes, HostAttributes)
        attributes = (("path", part.path), ("resources", node.attributes.resources))
        site = self._tables.host_site(HostSite(node.op, attributes, (), (), (node.name,), node.span))
        return UnallocatedHostCall(site, (), ())


def _launch(part: FusedKernel) -> UnallocatedLaunch:
    return UnallocatedLaunch(part.kernel, part.views, part.names, part.span, part.reasons)


def _attributes(attributes: Attributes) -> Iterator[tuple[str, SiteValue]]:
    """The fields of a call that the run side can read."""
    for field in fields(attributes):
        value: object = getattr(attributes, field.name)
        if isinstance(value, bool | int | float | str):
            yield field.name, value
        elif isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            texts = tuple(each for each in items if isinstance(each, str))
            if len(texts) == len(items):
                yield field.name, texts
