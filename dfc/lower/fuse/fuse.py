"""fuse: every entry and test of a graph becomes kernels over views of memory.

Before: `max`, `sub`, `exp`, `sum`, `div` nodes over [B, N].
After: one kernel with parallel axis B and three stages over N; only the last result has memory.

Assumes a verified graph after `expand`: no gradient nodes, no ops that decompose. Guarantees that results lie in the
memory of the caller and that state is changed in place.
"""

from __future__ import annotations

from collections.abc import Collection

from dfc.ir.attributes import Literal
from dfc.ir.graph import Entry, Graph, Value
from dfc.ir.measured import bounds_in
from dfc.ir.types import TextType
from dfc.kernels.form import ROUTINE, ROW_BLOCKS
from dfc.kernels.program import BufferRole, Program
from dfc.lower.background import background_state
from dfc.lower.fuse.blocks import fuse_block
from dfc.lower.fuse.emit.effects import names_to_isolate
from dfc.lower.fuse.fused import Fused, FusedEntry
from dfc.lower.fuse.items.collect import Exit
from dfc.lower.fuse.items.targets import whole
from dfc.lower.fuse.rewrite.flatten import flatten
from dfc.lower.fuse.rewrite.hoist import hoist
from dfc.lower.fuse.rewrite.prepare import merge_gathers, prepare
from dfc.lower.fuse.rows.row_blocks import with_row_blocks
from dfc.lower.fuse.scope import Scope
from dfc.lower.refills import with_queue_plans
from dfc.lower.storage import BufferView, Storage, whole_view
from dfc.transforms.expand import expand_routines


def fuse(graph: Graph, *, fusing: bool = True, forms: Collection[str] = ()) -> Fused:
    """The kernels of a graph; with `fusing` off every node is a kernel of its own (to narrow down mistakes). `forms`
    are the kernel forms that the target takes besides loops and contractions."""
    graph = graph if ROUTINE in forms else expand_routines(graph)
    background = background_state(graph)
    tables = Program(graph.name, resources=with_queue_plans(graph), background=background)
    numbers: dict[Literal, int] = {}
    entries: list[FusedEntry] = []
    for entry in (*graph.entries.values(), *graph.tests.values()):
        isolated = names_to_isolate(entry, graph.resources, background)
        fused = _entry(Scope(tables, fusing, isolated, numbers), entry)
        entries.append(with_row_blocks(fused) if fusing and ROW_BLOCKS in forms else fused)
    return Fused(tables, tuple(entries))


def _entry(scope: Scope, entry: Entry) -> FusedEntry:
    block = prepare(entry.block, scope.program.resources, scope.isolated)
    if scope.fusing:
        block = merge_gathers(flatten(hoist(block)))
    measured = bounds_in(block)
    scope.measures = bool(measured)
    feeds = [value for value in entry.block.parameters if not value.is_token]
    arguments = tuple(_argument(scope, value, number) for number, value in enumerate(feeds))
    results: list[BufferView] = []
    exits: list[Exit] = []
    for number, (name, value) in enumerate(zip(entry.result_names, block.outputs, strict=False)):
        kind = value.tensor
        view = whole_view(Storage(BufferRole.RESULT, kind.machine, kind.shape, name, index=number))
        results.append(view)
        scope.results.add(view.storage)
        exits.append((value, whole(view)))
    fused = fuse_block(scope, block, exits)
    claimed = tuple(scope.claimed.get(view.storage, view) for view in results)
    return FusedEntry(entry, fused, arguments, claimed, measured)


def _argument(scope: Scope, value: Value, number: int) -> BufferView | None:
    if isinstance(value.type, TextType):
        scope.texts[value] = number
        return None
    kind = value.tensor
    view = whole_view(Storage(BufferRole.ARGUMENT, kind.machine, kind.shape, value.name, index=number))
    scope.views[value] = view
    return view
