"""What callers need to know of an entry, from its graph."""

from __future__ import annotations

from dfc.ir.graph import Entry
from dfc.ir.types import TensorType
from dfc.ir.walk import nodes
from dfc.kernels.program import EntrySignature
from dfc.ops.attributes import (
    AssignAttributes,
    DrawAttributes,
    HostAttributes,
    ResourceAttributes,
)
from dfc.ops.effects.mutexes import MutexAttributes
from dfc.ops.effects.queues import QueueAttributes, TakeAttributes
from dfc.transforms.batch.over_batch import results_over


def signature(entry: Entry) -> EntrySignature:
    """What a caller needs to know of an entry."""
    feeds = [value for value in entry.block.parameters if not value.is_token]
    types = [(v.tensor.machine, v.tensor.shape) if isinstance(v.type, TensorType) else None for v in feeds]
    results = [v.tensor for v in entry.block.outputs if isinstance(v.type, TensorType)]
    read, written = state_used(entry)
    return EntrySignature(
        entry.name,
        entry.parameter_names,
        entry.result_names,
        entry.dims,
        entry.dim_feeds,
        entry.checks,
        entry.readonly,
        entry.concurrent,
        entry.is_test,
        entry.unnamed_result,
        entry.doc,
        entry.parameter_docs,
        tuple(types),
        tuple((t.machine, t.shape) for t in results),
        results_over(entry),
        read,
        written,
        entry.span,
        entry.copies,
    )


def state_used(entry: Entry) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The state an entry reads and writes, sorted. A draw does both; so does an assignment that leaves a part."""
    read: set[str] = set()
    written: set[str] = set()
    for node in nodes(entry.block):
        match node.attributes:
            case ResourceAttributes(name):
                read.add(name)
            case AssignAttributes(name, mode, index):
                written.add(name)
                if index or mode != ":=":
                    read.add(name)
            case DrawAttributes(name):
                read.add(name)
                written.add(name)
            case QueueAttributes(name) | TakeAttributes(name) | MutexAttributes(name):
                read.add(name)
                written.add(name)
            case HostAttributes(names):
                (read if node.op == "checkpoint_save" else written).update(names)
            case _:
                pass
    return tuple(sorted(read)), tuple(sorted(written))
