"""Nodes by which rows travel between the tasks that use them and those that have them.

    let ids: i64[K]                                  at the caller
    route_ids(ids)                                   at the caller: sorted by owner, the numbers rows have there
    let count, all = routed_ids()                    at the owners
    let n: i64[k] = range(count, K); let own = all[n]
    let x: f32[k, W] = shard[own]; answer_rows(x)    at the owners
    let x: f32[K, W] = answered_rows()               at the caller: in the order of ids

Numbers are routed once, whatever is done with them. `Routes` appends nodes to a block and says where each of them is.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.shard.model import Caller, Division, RowEdge
from dfc.ir.attributes import Attributes, MeasuredAttributes
from dfc.ir.dims import Dim, Symbol, dim, product
from dfc.ir.dtypes import I64
from dfc.ir.graph import Entry, Node, Value
from dfc.ir.measured import measured_in
from dfc.ir.names import NameSet
from dfc.ir.types import TensorType, TokenType
from dfc.ops.attributes import AxisAttributes, ReduceAttributes, TypeAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.communication import NETWORK, CombinedAttributes, ContributeAttributes
from dfc.ops.effects.routing import RouteAttributes, RoutedAttributes, ShardAttributes

FIRST = AxisAttributes(0)
NETWORK_TOKEN = TokenType(NETWORK)


@dataclass(frozen=True, slots=True)
class Routing:
    """Numbers of rows that went to their owners. `shape` is theirs at the caller; `local` what arrived, as numbers of
    rows there, and `present` 0, 1, .. for each of these."""

    name: str
    division: Division
    shape: tuple[Dim, ...]
    source: str
    room: Dim
    present: Value
    local: Value


@dataclass(frozen=True, slots=True)
class _Here:
    """What a task knows of its share: number, and 0, 1, .. for each of its rows (None: there is room for no more)."""

    number: Value
    present: Value | None


class Routes:
    """Appends to `builder`. `network` is the current token of the network; `sites` are those of the new nodes. What is
    routed in a block is known there and in the regions of its nodes."""

    def __init__(self, entry: Entry, builder: Builder, caller: Caller) -> None:
        self.builder = builder
        self.caller = caller
        self.network = self.new_token()
        self.sites: dict[Node, TaskSite] = {}
        self.edges: list[RowEdge] = []
        self.combined_edges: list[RowEdge] = []
        self._entry = entry
        self._keys = NameSet()
        self._symbols = NameSet(symbol.name for symbol in (*entry.dims, *measured_in(entry.block)))
        self._routings: ChainMap[tuple[Value, Division], Routing] = ChainMap()
        self._here: ChainMap[Division, _Here] = ChainMap()
        self._rows: ChainMap[Division, Value] = ChainMap()
        self._nodes_with_site = 0

    def new_token(self) -> Value:
        return Value(NETWORK_TOKEN, NETWORK)

    def enter(self) -> None:
        """A block begins."""
        self._routings, self._here = self._routings.new_child(), self._here.new_child()
        self._rows = self._rows.new_child()

    def leave(self) -> None:
        self._routings, self._here, self._rows = self._routings.parents, self._here.parents, self._rows.parents

    # ---------------------------------------------------------------- places --

    def here(self, site: TaskSite | None) -> None:
        """Says where the nodes are that were appended since the last time."""
        nodes = self.builder.block.nodes
        if site is not None:
            self.sites.update(dict.fromkeys(nodes[self._nodes_with_site :], site))
        self._nodes_with_site = len(nodes)

    def _talk(
        self, op: str, attributes: Attributes, operands: Sequence[Value], types: Sequence[TensorType]
    ) -> Sequence[Value]:
        node = self.builder.add(op, (*operands, self.network), (*types, NETWORK_TOKEN), attributes)
        self.network = node.results[-1]
        return node.results[:-1]

    # ---------------------------------------------------------------- rows by number --

    def numbers(self, start: Dim, size: Dim, step: int) -> Value:
        """The numbers of a range, at the caller."""
        b = self.builder
        self.here(None)
        count = b.apply("iota", attributes=TypeAttributes(TensorType(I64, (size,))))
        steps = b.apply("mul", count, b.constant(step, I64))
        row_numbers = b.apply("add", steps, b.size(start))
        self.here(self.caller.site)
        return row_numbers

    def routing(self, ids: Value, division: Division) -> Routing:
        """Numbers of rows, sent to their owners."""
        cached = self._routings.get((ids, division))
        return cached if cached is not None else self._routings.setdefault((ids, division), self._route(ids, division))

    def _route(self, ids: Value, division: Division) -> Routing:
        b, caller = self.builder, self.caller
        self.here(None)
        name = self._key("ids")
        shape = ids.tensor.shape
        own = caller.count is not None and any(caller.count in axis.symbols() for axis in shape)
        source = str(caller.site) if own else f"{caller.site.job}:{caller.site.task or 0}"
        flat = b.reshape(b.cast(ids, I64), (product(shape),))
        self._talk("route_ids", self._attributes(name, name, division, source, "ids"), (flat,), ())
        self.here(caller.site)
        room = product(shape).substitute({caller.count: dim(caller.blocks)} if caller.count is not None else {})
        numbers = TensorType(I64, (room,))
        attributes = self._routed(self._attributes(name, name, division, source), numbers)
        count, everything = self._talk("routed_ids", attributes, (), (TensorType(I64), numbers))
        present = self._counted(count, room)
        local = b.apply("gather", everything, present, attributes=FIRST)
        self.here(division.site)
        return Routing(name, division, shape, source, room, present, local)

    def _counted(self, count: Value, most: Dim) -> Value:
        symbol = Symbol(self._symbols.fresh("N"))
        return self.builder.apply("range", count, attributes=MeasuredAttributes(dim(symbol), most))

    def push(self, route: Routing, value: Value, axis: int) -> Value:
        """What belongs to the numbers, at their owners; `axis` is the first of the axes that stand for them."""
        b = self.builder
        self.here(None)
        shape, width = value.tensor.shape, len(route.shape)
        rest = (*shape[:axis], *shape[axis + width :])
        order = (*range(axis, axis + width), *range(axis), *range(axis + width, len(shape)))
        flat = b.reshape(_moved(b, value, order), (product(route.shape), *rest))
        key = self._key("rows")
        self._talk("route_rows", self._attributes(key, route.name, route.division, route.source, "rows"), (flat,), ())
        self.here(self.caller.site)
        type_ = value.tensor.with_shape((route.room, *rest))
        attributes = self._routed(self._attributes(key, route.name, route.division, route.source), type_)
        (everything,) = self._talk("routed_rows", attributes, (), (type_,))
        rows = b.apply("gather", everything, route.present, attributes=FIRST)
        moved = _moved(b, rows, (*range(1, axis + 1), 0, *range(axis + 1, len(rest) + 1)))
        self.here(route.division.site)
        return moved

    def answer(self, route: Routing, rows: Value, axis: int) -> Value:
        """What the owners have for the numbers, at the caller; `axis` is the one that stands for them."""
        b, division = self.builder, route.division
        rank = rows.tensor.rank
        front = _moved(b, rows, (axis, *range(axis), *range(axis + 1, rank)))
        key = self._key("answer")
        self.edges.append(RowEdge(key, division.job, (str(self.caller.site),), b.name, b.span))
        self._talk("answer_rows", self._attributes(key, route.name, division, route.source), (front,), ())
        self.here(division.site)
        rest = front.tensor.shape[1:]
        type_ = rows.tensor.with_shape((product(route.shape), *rest))
        attributes = self._routed(self._attributes(key, route.name, division, route.source), type_)
        (flat,) = self._talk("answered_rows", attributes, (), (type_,))
        width = len(route.shape)
        whole = b.reshape(flat, (*route.shape, *rest))
        moved = _moved(b, whole, (*range(width, width + axis), *range(width), *range(width + axis, width + rank - 1)))
        self.here(self.caller.site)
        return moved

    def _attributes(
        self, key: str, routing: str, division: Division, source: str, new_edge: str = ""
    ) -> RouteAttributes:
        if new_edge:
            self.edges.append(RowEdge(key, source, (division.job,), self.builder.name, self.builder.span))
        return RouteAttributes(key, routing, division.job, source, str(self.caller.site), division.rule, division.rows)

    def _routed(self, a: RouteAttributes, type_: TensorType) -> RoutedAttributes:
        return RoutedAttributes(a.key, a.routing, a.owners, a.source, a.callers, a.rule, a.rows, type_)

    def _key(self, what: str) -> str:
        name, prefix = self.builder.name, f"{self._entry.name}/"
        return self._keys.fresh(f"{name if name.startswith(prefix) else prefix + name}/{what}")

    # ---------------------------------------------------------------- shares --

    def share(self, division: Division) -> _Here:
        """What a task has to know of its share."""
        if division not in self._here:
            self.here(None)
            scalar = TensorType(I64)
            attributes = ShardAttributes(division.job, division.rule, division.rows, scalar)
            number, count = self._talk("shard_place", attributes, (), (scalar, scalar))
            present = None if division.is_even else self._counted(count, dim(division.most))
            self._here[division] = _Here(number, present)
            self.here(division.site)
        return self._here[division]

    def size(self, division: Division) -> Dim:
        """How many rows a task has."""
        present = self.share(division).present
        return dim(division.most) if present is None else present.tensor.shape[0]

    def rows_here(self, division: Division) -> Value:
        """The numbers, in the whole, of the rows of a task."""
        if division not in self._rows:
            self.here(None)
            type_ = TensorType(I64, (dim(division.most),))
            attributes = ShardAttributes(division.job, division.rule, division.rows, type_)
            (rows,) = self._talk("shard_rows", attributes, (), (type_,))
            self.here(division.site)
            self._rows[division] = self.without_room(rows, 0, division)
        return self._rows[division]

    def without_room(self, memory: Value, axis: int, division: Division) -> Value:
        """The rows of a task, out of memory that may have room for one more."""
        present = self.share(division).present
        if present is None:
            return memory
        self.here(None)
        rows = self.builder.apply("gather", memory, present, attributes=AxisAttributes(axis))
        self.here(division.site)
        return rows

    def with_room(self, rows: Value, axis: int, division: Division) -> Value:
        """The rows of a task as all tasks have them: the last one stands in a place that means nothing."""
        present = self.share(division).present
        if present is None:
            return rows
        b = self.builder
        self.here(None)
        steps = b.apply("iota", attributes=TypeAttributes(TensorType(I64, (dim(division.most),))))
        last = b.apply("sub", b.size(present.tensor.shape[0]), b.constant(1, I64))
        indices = b.apply("minimum", steps, last)
        padded = b.apply("gather", rows, indices, attributes=AxisAttributes(axis))
        self.here(division.site)
        return padded

    # ---------------------------------------------------------------- together --

    def combined(self, part: Value, how: str, division: Division) -> Value:
        """What all tasks make together; the same on each of them."""
        if how == "prod":
            stacked = self.combined(part, "concat", division)
            self.here(None)
            product = self.builder.apply("prod", stacked, attributes=ReduceAttributes((0,), keep_dims=False))
            self.here(division.site)
            return product
        number = self.share(division).number
        self.here(None)
        type_ = part.tensor
        if how == "concat":
            part = self.builder.reshape(part, (dim(1), *type_.shape))
            type_ = type_.with_shape((dim(division.tasks), *type_.shape))
        key = self._key("tasks")
        attributes = ContributeAttributes(key, division.job, division.tasks, how)
        self._talk("contribute", attributes, (part, number), ())
        (whole,) = self._talk(
            "combined", CombinedAttributes(key, division.job, division.tasks, how, type_, 1.0), (), (type_,)
        )
        self.combined_edges.append(RowEdge(key, division.job, (division.job,), self.builder.name, self.builder.span))
        self.here(division.site)
        return whole

    def whole(self, rows: Value, axis: int, division: Division) -> Value:
        """Everything that is split, in its order, on each of the tasks."""
        b = self.builder
        full = self.with_room(rows, axis, division)
        self.here(None)
        rank = full.tensor.rank
        front = _moved(b, full, (axis, *range(axis), *range(axis + 1, rank)))
        self.here(division.site)
        stacked = self.combined(front, "concat", division)
        line = b.reshape(stacked, (dim(division.tasks * division.most), *front.tensor.shape[1:]))
        type_ = TensorType(I64, (dim(division.rows),))
        attributes = ShardAttributes(division.job, division.rule, division.rows, type_)
        (positions,) = self._talk("shard_positions", attributes, (), (type_,))
        ordered = b.apply("gather", line, positions, attributes=FIRST)
        moved = _moved(b, ordered, (*range(1, axis + 1), 0, *range(axis + 1, rank)))
        self.here(division.site)
        return moved


def _moved(b: Builder, value: Value, order: Sequence[int]) -> Value:
    return value if list(order) == sorted(order) else b.transpose(value, order)
