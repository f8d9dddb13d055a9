"""An entry whose state is divided: every node as it is done by rows, or as it was, with what has to travel between.

Follows `Findings` and `Demands`. Values by rows are at their owners, so are nodes that touch them; numbers and rows of
what is picked or assigned by number travel (`routes`). In loops and branches they travel in every round: the region has
the token of the network, and is at home where rows are asked for, so that all who take part go through the same rounds.
A loop over the blocks of a task, whose rounds are not those of others, gets whole values. Guarantees nodes in a valid
order, and one token of the network through all messages.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace

from dfc.deployment.model import Site as Place
from dfc.diagnostics import CompileError
from dfc.ir import walk
from dfc.ir.attributes import Attributes, MeasuredAttributes
from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.rewrite import Pass, Site, rebuild, with_parts
from dfc.ir.symbols import symbols_of
from dfc.ir.types import TensorType
from dfc.ops.attributes import (
    AxisAttributes,
    RandomAttributes,
    ReduceAttributes,
    ResourceAttributes,
    ScatterAttributes,
    ShapeAttributes,
    SliceAttributes,
    TypeAttributes,
)
from dfc.ops.builder import Builder
from dfc.ops.effects import is_pure
from dfc.passes.replicate.states import Split
from dfc.passes.shard import mistakes
from dfc.passes.shard.analysis import Findings, goes_over_blocks, written
from dfc.passes.shard.beside import beside_rows
from dfc.passes.shard.demands import Demands, cut_by_node
from dfc.passes.shard.draws import random_rows
from dfc.passes.shard.model import Caller, Division
from dfc.passes.shard.routes import NETWORK_TOKEN, Routes
from dfc.passes.shard.updates import Updates


def rewritten(entry: Entry, found: Findings, demands: Demands, caller: Caller) -> tuple[Entry, Routes]:
    """The entry, and what travels in it."""
    work = _Rewriting(entry, found, demands, caller)
    block = work.finished(rebuild(entry.block, work, work.values))
    return replace(entry, block=block), work.routes


class _Rewriting(Pass):
    """`values` has what common values have become, `_rows` values by rows, `_memory` reads as they lie in memory."""

    def __init__(self, entry: Entry, found: Findings, demands: Demands, caller: Caller) -> None:
        self.values: dict[Value, Value] = {}
        self.routes = Routes(entry, Builder(Block()), caller)
        self._entry = entry
        self._found = found
        self._demands = demands
        self._rows: ChainMap[tuple[Value, Division, int], Value] = ChainMap()
        self._memory: dict[Value, Value] = {}
        self._updates = Updates(found, demands, self.routes, self)
        self._networks: list[Value] = []
        self._starts: list[Value] = []
        self._beside = beside_rows(entry.block, found)
        self._blocks_at: int | None = None
        self._ends: list[tuple[Value, Value]] = []

    def finished(self, block: Block) -> Block:
        """The block with the token of the network among its parameters and outputs."""
        start, network = self._ends.pop()
        return block if network is start else with_network(block, start, network)

    def descend(self, node: Node, operands: Sequence[Value], region: Block) -> None:
        if self._blocks_at is None and goes_over_blocks(node, self._found):
            self._blocks_at = len(self._starts)

    def enter(self, block: Block) -> None:
        """What is made of rows in a block is there in the block and in the regions of its nodes."""
        self._networks.append(self.routes.network)
        self.routes.network = next((v for v in block.parameters if v.type == NETWORK_TOKEN), self.routes.new_token())
        self._starts.append(self.routes.network)
        self._rows = self._rows.new_child()
        self._updates.enter()
        self.routes.enter()

    def leave(self, block: Block) -> None:
        self._ends.append((self._starts.pop(), self.routes.network))
        if self._blocks_at == len(self._starts):
            self._blocks_at = None
        self.routes.network = self._networks.pop()
        self._rows = self._rows.parents
        self._updates.leave()
        self.routes.leave()

    def visit(self, site: Site) -> Sequence[Value] | None:
        if self._blocks_at is not None:
            self._forget_ends(site)
            return None
        routes, node = self.routes, site.node
        routes.builder.block.nodes = site.output
        routes.builder.name, routes.builder.span = node.name, node.span
        routes.here(None)
        if node.regions:
            return self._region(site)
        state = written(node, self._found.sharded)
        if state is not None:
            return [self._updates.assign(node, site.operands, state)]
        if any(v in self._found.states for v in node.results) and node.op == "read":
            return self._read(node, site.operands)
        if node in self._found.picks:
            return [self._picked(node)] if node.result in self._demands.whole else node.results
        if node in self._found.wanted:
            return self._by_rows(node) if any(self._demands.has(v) for v in node.results) else node.results
        return self._common(site)

    def _forget_ends(self, site: Site) -> None:
        """Of regions in a loop over blocks, which stay as they are."""
        del self._ends[len(self._ends) - len(site.regions) :]

    # ---------------------------------------------------------------- forms of values --

    def whole(self, value: Value) -> Value:
        """What a common value has become."""
        return self.values.get(value, value)

    def rows(self, value: Value, axis: int, division: Division) -> Value:
        """The rows of a value at their owners: as many as a task has."""
        key = (value, division, axis)
        if key not in self._rows:
            if value in self._memory and self._found.divisions[value] == division:
                self._rows[key] = self.routes.without_room(self._memory[value], axis, division)
            else:  # a parameter of the entry, or rows that lie elsewhere
                self._rows[key] = self._cut(value, axis, division)
        return self._rows[key]

    def memory(self, value: Value, axis: int, division: Division) -> Value:
        """The same, where what lies behind them does no harm."""
        return self._memory[value] if value in self._memory else self.rows(value, axis, division)

    # ---------------------------------------------------------------- nodes --

    def _region(self, site: Site) -> Sequence[Value]:
        """A loop or branch, with the token of the network if anything travels inside."""
        node, routes = site.node, self.routes
        first = len(self._ends) - len(site.regions)
        ends, self._ends = self._ends[first:], self._ends[:first]
        operands = [routes.network if v.type == NETWORK_TOKEN else v for v in site.operands]
        if any(network is not start for start, network in ends):
            regions = [with_network(block, *end) for block, end in zip(site.regions, ends, strict=True)]
            made = _talking(node, operands, regions, routes.network)
        else:
            made = with_parts(node, operands, site.regions)
        site.output.append(made)
        tokens = {v.type: v for v in made.results if v.is_token}
        routes.network = tokens.get(NETWORK_TOKEN, routes.network)
        is_spread = any(inner in routes.sites for region in made.regions for inner in walk.nodes(region))
        routes.here(routes.caller.site if is_spread else self._own_site(node))
        plain = [v for v in made.results if not v.is_token]
        results = [tokens[v.type] if v.is_token else plain[number] for number, v in enumerate(node.results)]
        self.values.update(zip(node.results, results, strict=True))
        return results

    def _common(self, site: Site) -> Sequence[Value]:
        """A node that is done as before, and the rows of its result if somebody needs them."""
        node, demands = site.node, self._demands
        is_needed = not is_pure(node) or isinstance(node.attributes, MeasuredAttributes)
        if is_needed or any(v in demands.whole for v in node.results):
            operands = [self.routes.network if v.type == NETWORK_TOKEN else v for v in site.operands]
            kept = with_parts(node, operands, site.regions)
            site.output.append(kept)
            for value in kept.results:
                if value.type == NETWORK_TOKEN:
                    self.routes.network = value
            self.values.update(zip(node.results, kept.results, strict=True))
            self.routes.here(self._own_site(node))
        for value in node.results:
            for division, axis in demands.rows.get(value, {}):
                self._rows[value, division, axis] = self._cut(value, axis, division)
        return [self.whole(value) for value in node.results]

    def _own_site(self, node: Node) -> Place | None:
        """Where a node has to be that has to do with the blocks of a task, or is better done beside rows."""
        caller, division = self.routes.caller, self._beside.get(node)
        site = division.site if division is not None else None
        if caller.count is None:
            return site
        sizes = symbols_of(node.attributes).union(*(symbols_of(v.type) for v in (*node.operands, *node.results)))
        is_own = caller.count in sizes or node.op in ("contribute", "combined")
        return caller.site if is_own else site

    def _read(self, node: Node, operands: Sequence[Value]) -> Sequence[Value]:
        b, value = self.routes.builder, node.results[0]
        division, axis = self._found.divisions[value], self._found.states[value].axis
        shape = value.tensor.shape
        type_ = value.tensor.with_shape((*shape[:axis], dim(division.most), *shape[axis + 1 :]))
        made = b.add("read", operands, (type_, node.results[1].type), node.attributes)
        self.routes.here(division.site)
        self._memory[value] = made.results[0]
        if value in self._demands.whole:
            self._brought_together(value)
            return [self.values[value], made.results[1]]
        return made.results

    def _brought_together(self, value: Value) -> None:
        """Something split that is needed whole."""
        division, axis = self._found.divisions[value], self._found.states[value].axis
        others = [size.constant for number, size in enumerate(value.tensor.shape) if number != axis]
        width = 1
        for size in others:
            width *= size or 1
        states = {name: each for name, each in self._found.sharded.items() if each.division == division}
        name, sharded = next(iter(states.items()))
        if None not in others and width > 1:
            user, reason = self._found.reasons.get(value, (value.node, "it is a result of the entry"))
            raise CompileError([mistakes.whole(value, _origin(value) or name, sharded, user, reason)])
        self.values[value] = self.routes.whole(self.rows(value, axis, division), axis, division)

    def _picked(self, node: Node) -> Value:
        """Rows by number, where they are used."""
        source = node.operands[0]
        division, axis = self._found.divisions[source], self._found.states[source].axis
        memory = self.memory(source, axis, division)
        if isinstance(node.attributes, SliceAttributes):
            ids = self.counted(node.attributes.starts[axis], node.attributes.sizes[axis], node.attributes.steps[axis])
            memory = self._sliced(memory, node.attributes, axis, division)
        else:
            ids = self.whole(node.operands[1])
        route = self.routes.routing(ids, division)
        self.routes.here(None)
        rows = self.routes.builder.apply("gather", memory, route.local, attributes=AxisAttributes(axis))
        self.routes.here(division.site)
        return self.routes.answer(route, rows, axis)

    def counted(self, start: Dim, size: Dim, step: int) -> Value:
        """The numbers of a range."""
        b = self.routes.builder
        self.routes.here(None)
        count = b.apply("iota", attributes=TypeAttributes(TensorType(I64, (size,))))
        steps = b.apply("mul", count, b.constant(step, I64))
        found = b.apply("add", steps, b.size(start))
        self.routes.here(self.routes.caller.site)
        return found

    def _sliced(self, memory: Value, how: SliceAttributes, axis: int, division: Division) -> Value:
        """A slice along the other axes."""
        starts, sizes, steps = list(how.starts), list(how.sizes), list(how.steps)
        starts[axis], sizes[axis], steps[axis] = dim(0), memory.tensor.shape[axis], 1
        self.routes.here(None)
        found = self.routes.builder.apply(
            "slice", memory, attributes=SliceAttributes(tuple(starts), tuple(sizes), tuple(steps))
        )
        self.routes.here(division.site)
        return found

    def _by_rows(self, node: Node) -> Sequence[Value]:
        """A node at the owners; what each of them finds is combined where the result is not split."""
        routes, b = self.routes, self.routes.builder
        division = self._found.division(node)
        wanted = self._found.wanted[node]
        operands = [
            self.rows(value, state.axis, division) if isinstance(state, Split) else self.whole(value)
            for value, state in zip(node.operands, wanted, strict=True)
        ]
        size = routes.size(division)
        routes.here(None)
        how = self._found.combined.get(node)
        is_mean = how is not None and node.op == "mean"
        attributes = self._attributes(node, size)
        made = b.node("sum" if is_mean else node.op, operands, attributes)
        routes.here(division.site)
        for old, new in zip(node.results, made.results, strict=True):
            if old in self._found.states:
                self._rows[old, division, self._found.states[old].axis] = new
                if old in self._demands.whole:
                    self._brought_together(old)
            else:
                self.values[old] = new if how is None else routes.combined(new, how, division)
        if is_mean:
            self.values[node.result] = self._divided(self.values[node.result], node, division)
        return [self.whole(value) for value in node.results]

    def _divided(self, total: Value, node: Node, division: Division) -> Value:
        assert isinstance(node.attributes, ReduceAttributes)
        b, count = self.routes.builder, dim(1)
        for axis in node.attributes.axes:
            count = count * node.operands[0].tensor.shape[axis]
        self.routes.here(None)
        found = b.apply("div", total, b.cast(b.size(count), total.tensor.dtype))
        self.routes.here(division.site)
        return found

    def _attributes(self, node: Node, size: Dim) -> Attributes:
        """The attributes with the number of a task's rows in them."""
        state = self._found.states.get(node.results[0])
        if state is None:
            return node.attributes
        return with_size(node.attributes, state.axis, size)

    def _cut(self, value: Value, axis: int, division: Division) -> Value:
        """The rows of a common value at their owners."""
        routes, b = self.routes, self.routes.builder
        parts = cut_by_node(value, axis, division) if value not in self._found.states else None
        if parts is None or value.node is None:
            here = routes.rows_here(division)
            routes.here(None)
            found = b.apply("gather", self.whole(value), here, attributes=AxisAttributes(axis))
        elif value.node.op == "iota":
            here = routes.rows_here(division)
            routes.here(None)
            found = b.cast(here, value.tensor.dtype)
        elif isinstance(value.node.attributes, RandomAttributes):
            here = routes.rows_here(division)
            routes.here(None)
            found = random_rows(b, value.node.attributes, here, axis)
        elif value.node.op == "scatter_add":
            ids, rows = (self.whole(v) for v in value.node.operands)
            route = routes.routing(ids, division)
            pushed = self._updates.pushed(route, rows, axis)
            size = routes.size(division)
            routes.here(None)
            told = with_size(value.node.attributes, axis, size)
            found = b.apply("scatter_add", route.local, pushed, attributes=told)
        else:
            size = routes.size(division)
            operands = [self.whole(v) if own is None else self.rows(v, own, division) for v, own in parts]
            routes.here(None)
            told = with_size(value.node.attributes, axis, size)
            found = b.node(value.node.op, operands, told).result
        routes.here(division.site)
        return found


def with_size(attributes: Attributes, axis: int, size: Dim) -> Attributes:
    """Attributes of what has fewer rows along an axis."""
    match attributes:
        case ShapeAttributes(shape):
            return ShapeAttributes((*shape[:axis], size, *shape[axis + 1 :]))
        case SliceAttributes():
            sizes = attributes.sizes
            return replace(attributes, sizes=(*sizes[:axis], size, *sizes[axis + 1 :]))
        case ScatterAttributes():
            shape = attributes.shape
            return replace(attributes, shape=(*shape[:axis], size, *shape[axis + 1 :]))
        case _:
            return attributes


def _origin(value: Value) -> str | None:
    """The state that a value was read from, if it was."""
    node = value.node
    if node is None or node.op != "read":
        return None
    return node.attributes.resource if isinstance(node.attributes, ResourceAttributes) else None


def _talking(node: Node, operands: Sequence[Value], regions: Sequence[Block], network: Value) -> Node:
    """A node with the token of the network among what it takes and gives."""
    taken = in_order([*(v for v in operands if v.type != NETWORK_TOKEN), network])
    plain = [v.type for v in node.results if not v.is_token]
    types = [*plain, *(v.type for v in taken if v.is_token)]
    return Node(node.op, taken, types, attributes=node.attributes, regions=regions, name=node.name, span=node.span)


def with_network(block: Block, start: Value, network: Value) -> Block:
    """The block with the token of the network among its parameters and outputs."""
    kept = [v for v in block.parameters if v is not start]
    outputs = [v for v in block.outputs if v.type != NETWORK_TOKEN]
    return Block(in_order([*kept, start]), block.nodes, in_order([*outputs, network]))


def in_order(values: Sequence[Value]) -> tuple[Value, ...]:
    """Plain values, then tokens by resource."""
    plain = [v for v in values if not v.is_token]
    return (*plain, *sorted((v for v in values if v.is_token), key=lambda v: str(v.type)))
