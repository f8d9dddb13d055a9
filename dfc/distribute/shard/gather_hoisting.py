"""Gather hoisting: rows that iterations pick by numbers known before the loop are picked before it, all at once.

    for t in 0..T { let x = table[ids[t]] .. }   ->   let rows = table[ids]; for t in 0..T { let x = rows[t] .. }
    for t in 0..T { let x = table[2 * t] .. }    ->   let ids = [2 * t for each t]; let rows = table[ids]; ..

One message to each owner instead of one in each iteration, and a batch in blocks goes through the iterations block by
block. The rows of all iterations are there at once, as those of `table[ids]` would be. Assumes an optimised graph;
`sharded` names divided state. Guarantees the same values, and the same mistakes: only loops are changed whose number of
iterations is a size, in which every iteration picks these rows, and which leave the table as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dfc.distribute.shard.model import Sharded
from dfc.ir import walk
from dfc.ir.attributes import MeasuredAttributes
from dfc.ir.dims import ONE, ZERO, Dim, dim, maximum
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.regions import for_node, for_view
from dfc.ir.rewrite import Cloner, Pass, RewriteSite, rebuild
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxisAttributes, ConstantAttributes, DimAttributes, ResourceAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.effects import is_pure
from dfc.ops.lowering.views import picked_axis
from dfc.ops.rules.lookup import rules_of
from dfc.transforms.scalar.dce import dce_block

MOST_NODES = 64
"""Nodes that make the numbers of an iteration, at most: they are computed in a loop of their own."""


def hoist_gathers(graph: Graph, sharded: Mapping[str, Sharded]) -> Graph:
    """The graph with rows of divided state picked before loops where that is possible."""
    entries = {
        name: replace(entry, block=_hoist_gathers(entry.block, sharded)) for name, entry in graph.entries.items()
    }
    return replace(graph, entries=entries) if sharded else graph


def _hoist_gathers(block: Block, sharded: Mapping[str, Sharded]) -> Block:
    work = _HoistGathers(sharded)
    changed = rebuild(block, work)
    return name_nodes(dce_block(changed), block) if work.changed else block


class _HoistGathers(Pass):
    """`_rows` has what was gathered before loops in the blocks around: by what, along which axis, and by which
    numbers."""

    def __init__(self, sharded: Mapping[str, Sharded]) -> None:
        self.changed = False
        self._sharded = sharded
        self._rows: list[dict[tuple[Value, Value], Value]] = []

    def enter(self, block: Block) -> None:
        self._rows.append({})

    def leave(self, block: Block) -> None:
        self._rows.pop()

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        loop = _counted_loop(site) if site.node.op == "for" else None
        if loop is None:
            return None
        (region,) = site.regions
        builder = Builder.appending(site.output, name=site.node.name, span=site.node.span)
        inside: dict[Value, tuple[Value, Value | None]] = {}
        for node in region.nodes:
            hoisted = self._from(node, loop, builder) if self._is_pick(node, loop) else None
            if hoisted is not None:
                inside[node.result] = hoisted
        if not inside:
            return None
        self.changed = True
        site.regions = (rebuild(region, _Inside(inside, loop)),)
        kept = site.kept()
        site.output.append(kept)
        return kept.results

    def _is_pick(self, node: Node, loop: _Loop) -> bool:
        """Whether it picks rows from divided state as it was read before the loop."""
        axis = picked_axis(node)
        source = node.operands[0].node if axis is not None else None
        if source is None or source in loop.inside:
            return False
        if source.op != "read" or not isinstance(source.attributes, ResourceAttributes):
            return False
        state = self._sharded.get(source.attributes.resource)
        return state is not None and state.axis == axis

    def _from(self, node: Node, loop: _Loop, b: Builder) -> tuple[Value, Value | None] | None:
        """The rows of all iterations, and by which number an iteration finds its own (None: by that of the
        iteration)."""
        table, ids = node.operands
        line = loop.line(ids)
        if line is not None:
            return self._picked(node, table, line[0], b), line[1]
        makers = loop.makers(ids)
        return None if makers is None else (self._picked(node, table, loop.all_of(ids, makers, b), b), None)

    def _picked(self, node: Node, table: Value, ids: Value, b: Builder) -> Value:
        known = self._rows[-1]
        if (table, ids) not in known:
            b.name, b.span = f"{node.name}/iterations", node.span
            axis = picked_axis(node)
            assert axis is not None, node
            known[table, ids] = b.apply("gather", table, ids, attributes=AxisAttributes(axis))
        return known[table, ids]


class _Inside(Pass):
    """Rows of an iteration in place of those of the table."""

    def __init__(self, picks: Mapping[Value, tuple[Value, Value | None]], loop: _Loop) -> None:
        self._picks = picks
        self._loop = loop

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        hoisted = self._picks.get(site.node.results[0]) if site.node.results else None
        if hoisted is None:
            return None
        rows, number = hoisted
        b = Builder.appending(site.output, name=site.node.name, span=site.node.span)
        if number is None:
            number = self._loop.number(b)
        axis = picked_axis(site.node)
        assert axis is not None, site.node
        return [b.apply("gather", rows, number, attributes=AxisAttributes(axis))]


class _Loop:
    """A loop of exactly `trips` iterations, from `first` on."""

    def __init__(self, site: RewriteSite, trips: Dim, first: Dim) -> None:
        self.trips = trips
        self._first = first
        parts = for_view(site.node, site.operands, site.regions)
        self._start, self._stop = parts.start, parts.stop
        self._body, self._index = parts.body, parts.index
        self.inside = frozenset(self._body.nodes)

    def _is_outside(self, value: Value) -> bool:
        return value.node not in self.inside if value.node is not None else value not in self._body.parameters

    def number(self, b: Builder) -> Value:
        """How many iterations there were before this one."""
        return self._index if self._first == ZERO else b.apply("sub", self._index, self._start)

    def line(self, ids: Value) -> tuple[Value, Value] | None:
        """What has the numbers of each iteration in a line of its own, each of which one iteration takes; and by
        what."""
        node = ids.node
        if node is None or picked_axis(node) != 0:
            return None
        lines, at = node.operands
        if not self._is_outside(lines) or lines.tensor.shape[0] != self.trips or at.tensor.shape:
            return None
        forwards, backwards = (1, ZERO), (-1, self.trips - ONE)
        is_each = self._first == ZERO and self._line_number(at) in (forwards, backwards)
        return (lines, at) if is_each else None

    def _line_number(self, value: Value) -> tuple[int, Dim] | None:
        """a and b of a number that is a * iteration + b."""
        if value is self._index:
            return 1, ZERO
        size = _size(value)
        if size is not None:
            return 0, size
        node = value.node
        factors = rules_of(node).coefficients if node is not None and node in self.inside else ()
        if node is None or not factors:
            return None
        lines = [self._line_number(operand) for operand in node.operands]
        machine = value.tensor.machine
        if not machine.is_integer or machine.size < 4:
            return None  # what has no room for all iterations begins again
        known = [line for line in lines if line is not None]
        if len(known) < len(lines):
            return None
        steps = sum(factor * step for factor, (step, _) in zip(factors, known, strict=True))
        return steps, sum((first * factor for factor, (_, first) in zip(factors, known, strict=True)), ZERO)

    def makers(self, ids: Value) -> list[Node] | None:
        """The nodes inside that make the numbers of an iteration from its own number alone; None if others do."""
        nodes: dict[Node, None] = {}
        pending = [ids]
        while pending:
            value = pending.pop()
            node = value.node
            if value is self._index or self._is_outside(value):
                continue
            if node is None or not is_pure(node) or isinstance(node.attributes, MeasuredAttributes):
                return None
            nodes[node] = None
            pending += walk.inputs(node)
            if len(nodes) > MOST_NODES:
                return None
        return [node for node in self._body.nodes if node in nodes]

    def all_of(self, ids: Value, makers: Sequence[Node], b: Builder) -> Value:
        """The numbers of all iterations, one behind the other."""
        index = Value(TensorType(I64), self._index.name)
        body = Block([index])
        cloner = Cloner({self._index: index})
        cloner.inline(makers, body.nodes)
        body.outputs = (cloner.value(ids),)
        b.name = f"{ids.name}/iterations"
        return b.append(for_node(self._start, self._stop, (), body, trips=self.trips, origin=b)).result


def _counted_loop(site: RewriteSite) -> _Loop | None:
    """The loop, if it has as many iterations as its attributes say, whatever the sizes are."""
    parts = for_view(site.node, site.operands, site.regions)
    trips, first, last = parts.attributes.trips, _size(parts.start), _size(parts.stop)
    if trips is None or first is None or last is None:
        return None
    is_exact = trips in (last - first, maximum(last - first, ZERO))
    return _Loop(site, trips, first) if is_exact else None


def _size(value: Value) -> Dim | None:
    """A number as a size, if that is what it is."""
    node = value.node
    match node.attributes if node is not None else None:
        case DimAttributes(size):
            return size
        case ConstantAttributes(literal) if not value.tensor.shape and value.tensor.machine.is_integer:
            return dim(int(literal.array))
        case _:
            return None
