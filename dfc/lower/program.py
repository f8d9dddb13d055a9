"""From a graph to a program: every entry and test is prepared, fused, scheduled, and its memory planned.

Assumes a verified graph after `expand`: no gradient nodes, no ops that decompose. Guarantees that results lie in the
memory of the caller and that state is changed in place.
"""

from __future__ import annotations

from dfc.ir.attributes import Literal
from dfc.ir.graph import Entry, Graph, Value
from dfc.ir.measured import bounds_in
from dfc.ir.types import TensorType, TextType
from dfc.ir.walk import nodes
from dfc.kernels.program import EntryProgram, EntrySignature, Program, Role
from dfc.lower.buffers import finish
from dfc.lower.buffers.finish import Finisher
from dfc.lower.fuse.collect import Exit
from dfc.lower.fuse.flatten import flatten
from dfc.lower.fuse.places import Place, Storage, place_of
from dfc.lower.fuse.prepare import merge_gathers, prepare
from dfc.lower.fuse.scope import Scope
from dfc.lower.fuse.targets import whole
from dfc.lower.locks import lock
from dfc.lower.schedule import schedule
from dfc.lower.schedule.hoist import hoist
from dfc.lower.schedule.isolated import names_to_isolate
from dfc.ops.attributes import AssignAttributes, DrawAttributes, HostAttributes, ResourceAttributes
from dfc.transforms.batch.over_batch import results_over


def lower_graph(graph: Graph, *, fusing: bool = True) -> Program:
    """The program of a graph; with `fusing` off every node is a kernel of its own (to narrow down mistakes)."""
    program = Program(graph.name, resources=dict(graph.resources))
    finisher = Finisher(program, in_place=fusing)
    numbers: dict[Literal, int] = {}
    for entry in (*graph.entries.values(), *graph.tests.values()):
        isolated = names_to_isolate(entry, graph.resources)
        scope = Scope(program, fusing, isolated, numbers)
        program.entries.append(_entry(scope, finisher, entry))
        program.signatures.append(signature(entry))
    lock(program)
    return program


def _entry(scope: Scope, finisher: Finisher, entry: Entry) -> EntryProgram:
    block = prepare(entry.block, scope.program.resources, scope.isolated)
    if scope.fusing:
        block = merge_gathers(flatten(hoist(block)))
    measured = bounds_in(block)
    scope.measures = bool(measured)
    arguments = [_argument(scope, value, number) for number, value in enumerate(_feeds(entry))]
    results: list[Place] = []
    exits: list[Exit] = []
    for number, (name, value) in enumerate(zip(entry.result_names, block.outputs, strict=False)):
        kind = value.tensor
        place = place_of(Storage(Role.RESULT, kind.machine, kind.shape, name, index=number))
        results.append(place)
        scope.results.add(place.storage)
        exits.append((value, whole(place)))
    drafts = schedule(scope, block, exits)
    results = [scope.claimed.get(place.storage, place) for place in results]
    return finish(finisher, entry.name, drafts, arguments, results, entry.dims, measured)


def _feeds(entry: Entry) -> list[Value]:
    return [v for v in entry.block.parameters if not v.is_token]


def _argument(scope: Scope, value: Value, number: int) -> Place | None:
    if isinstance(value.type, TextType):
        scope.texts[value] = number
        return None
    kind = value.tensor
    place = place_of(Storage(Role.ARGUMENT, kind.machine, kind.shape, value.name, index=number))
    scope.places[value] = place
    return place


def signature(entry: Entry) -> EntrySignature:
    """What a caller needs to know of an entry."""
    feeds = _feeds(entry)
    types = [(v.tensor.machine, v.tensor.shape) if isinstance(v.type, TensorType) else None for v in feeds]
    results = [v.tensor for v in entry.block.outputs if isinstance(v.type, TensorType)]
    read, written = _state(entry)
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
    )


def _state(entry: Entry) -> tuple[tuple[str, ...], tuple[str, ...]]:
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
            case HostAttributes(names):
                (read if node.op == "checkpoint_save" else written).update(names)
            case _:
                pass
    return tuple(sorted(read)), tuple(sorted(written))
