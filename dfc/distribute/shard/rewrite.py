"""An entry whose state is divided: every node as it is done by rows, or as it was, with what has to travel between.

Follows `Findings` and `Demands`. Values by rows are at their owners, so are nodes that touch them; numbers and rows of
what is picked or assigned by number travel (`routes`). In loops and branches they travel in every iteration: the region
has the token of the network, and stands where rows are asked for, so that all who take part go through the same
iterations. A loop over the blocks of a task, whose iterations are not those of others, gets whole values. Guarantees
nodes in a valid order, and one token of the network through all messages.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace

from dfc.diagnostics.diagnostic import CompileError
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.shard import mistakes
from dfc.distribute.shard.analysis import Findings, goes_over_blocks, written
from dfc.distribute.shard.colocation import colocated_with_rows
from dfc.distribute.shard.cutting import divided, slice_rows
from dfc.distribute.shard.demands import Demands
from dfc.distribute.shard.model import Caller, Division, ResultRows
from dfc.distribute.shard.parts import End, origin, with_size, with_types
from dfc.distribute.shard.regions import inner_axis, outputs_of, tensor_flows
from dfc.distribute.shard.routes import NETWORK_TOKEN, Routes, Routing
from dfc.distribute.shard.updates import Updates
from dfc.ir import walk
from dfc.ir.attributes import Attributes, MeasuredAttributes
from dfc.ir.dims import Dim, dim
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.regions import carried, operands_of, view
from dfc.ir.rewrite import Pass, RewriteSite, rebuild, with_parts
from dfc.ir.symbols import symbols_of
from dfc.ir.types import Type
from dfc.ops.attributes import (
    AxisAttributes,
    ShapeAttributes,
    SliceAttributes,
)
from dfc.ops.builder import Builder
from dfc.ops.effects.communication import CombinedAttributes, ContributeAttributes
from dfc.ops.effects.effects import is_pure
from dfc.ops.rules.sharding import Split


def rewritten(
    entry: Entry, findings: Findings, demands: Demands, caller: Caller
) -> tuple[Entry, Routes, dict[str, ResultRows]]:
    """The entry, what travels in it, and which results come by rows."""
    work = _Rewriting(entry, findings, demands, caller)
    block = work.finished(rebuild(entry.block, work, work.values))
    return replace(entry, block=block), work.routes, work.results


class _Rewriting(Pass):
    """`values` has what common values have become, `_rows` values by rows, `_memory` reads as they lie in memory."""

    def __init__(self, entry: Entry, findings: Findings, demands: Demands, caller: Caller) -> None:
        self.values: dict[Value, Value] = {}
        self.routes = Routes(entry, Builder(Block()), caller)
        self.results: dict[str, ResultRows] = {}
        self._entry = entry
        self._findings = findings
        self._demands = demands
        self._rows: ChainMap[tuple[Value, Division, int], Value] = ChainMap()
        self._memory: dict[Value, Value] = {}
        self._updates = Updates(findings, demands, self.routes, self)
        self._networks: list[Value] = []
        self._starts: list[Value] = []
        self._colocated = colocated_with_rows(entry.block, findings)
        self._blocks_at: int | None = None
        self._ends: list[End] = []
        self._around: list[Node | None] = [None]
        self._outputs: list[list[Node]] = []

    def finished(self, block: Block) -> Block:
        """The block with the token of the network among its parameters and outputs, and rows in place of results."""
        end = self._ends.pop()
        return end.finished(block, end.talks)

    def descend(self, node: Node, operands: Sequence[Value], region: Block) -> None:
        """What is by rows inside is known before, above all how many there are."""
        self._around.append(node)
        if self._blocks_at is None and goes_over_blocks(node, self._findings):
            self._blocks_at = len(self._starts)
        if self._blocks_at is not None or region is not node.regions[0]:
            return
        self._appends(node, self._outputs[-1])
        for flow in tensor_flows(node):
            row_split = self._findings.split_of(flow.result)
            if row_split is not None:
                self.routes.size(row_split[1])
                if flow.initial is not None:
                    self.rows(flow.initial, row_split[0].axis, row_split[1])

    def parameters(self, block: Block) -> Sequence[Value]:
        findings = self._findings
        if self._blocks_at is not None or not any(v in findings.states for v in block.parameters):
            return block.parameters
        new_parameters = [Value(self._type_by_rows(v), v.name, None, n) for n, v in enumerate(block.parameters)]
        for old, new in zip(block.parameters, new_parameters, strict=True):
            row_split = findings.split_of(old)
            if row_split is not None:
                self._rows[old, row_split[1], row_split[0].axis] = new
        return new_parameters

    def begin(self, block: Block, output: list[Node]) -> None:
        self._outputs.append(output)
        if self._blocks_at is not None:
            return
        around = self._around[-1]
        for value in block.parameters:
            if value in self._findings.states and value in self._demands.whole:
                assert around is not None, "only loops carry rows"
                self._appends(around, output)
                self._brought_together(value)

    def _appends(self, node: Node, output: list[Node]) -> None:
        """What is made from here on comes to these nodes, on behalf of this one."""
        b = self.routes.builder
        b.block.nodes, b.name, b.span = output, node.name, node.span
        self.routes.here(None)

    def _type_by_rows(self, value: Value) -> Type:
        """The type of the rows that a task has of a value."""
        row_split = self._findings.split_of(value)
        if row_split is None:
            return value.type
        shape, axis = value.tensor.shape, row_split[0].axis
        return value.tensor.with_shape((*shape[:axis], self.routes.size(row_split[1]), *shape[axis + 1 :]))

    def enter(self, block: Block) -> None:
        """What is made of rows in a block is there in the block and in the regions of its nodes."""
        self._networks.append(self.routes.network)
        self.routes.network = next((v for v in block.parameters if v.type == NETWORK_TOKEN), self.routes.new_token())
        self._starts.append(self.routes.network)
        self._rows = self._rows.new_child()
        self._updates.enter()
        self.routes.enter()

    def leave(self, block: Block) -> None:
        around = self._around.pop()
        rows = self._handed_out(block, around) if self._blocks_at is None else {}
        self._ends.append(End(self._starts.pop(), self.routes.network, rows))
        self._outputs.pop()
        if self._blocks_at == len(self._starts):
            self._blocks_at = None
        self.routes.network = self._networks.pop()
        self._rows = self._rows.parents
        self._updates.leave()
        self.routes.leave()

    def _handed_out(self, block: Block, around: Node | None) -> dict[int, Value]:
        """The outputs that are by rows, each made by a node that is at the owners, as that decides where it is."""
        findings = self._findings
        if around is None:
            return self._results(block)
        rows: dict[int, Value] = {}
        for flow, value in outputs_of(around, block):
            row_split = findings.split_of(flow.result)
            if row_split is not None:
                self._appends(around, self._outputs[-1])
                own = self.rows(value, inner_axis(flow, row_split[0].axis), row_split[1])
                rows[flow.number] = self._at_owners(own, row_split[1])
        return rows

    def _results(self, block: Block) -> dict[int, Value]:
        """Results by rows: each owner gives what it has, with room for as many rows as any of them has."""
        rows: dict[int, Value] = {}
        names = dict(enumerate(self._entry.result_names))
        for number, value in enumerate(block.outputs):
            row_split = self._findings.split_of(value)
            if row_split is None or value in self._demands.whole:
                continue
            self.routes.builder.block.nodes = self._outputs[-1]
            self.routes.here(None)
            axis, division = row_split[0].axis, row_split[1]
            own = self._memory.get(value)
            if own is None:
                own = self.routes.with_room(self.rows(value, axis, division), axis, division)
            rows[number] = self._at_owners(own, division)
            self.results[names[number]] = ResultRows(division, axis)
        return rows

    def _at_owners(self, rows: Value, division: Division) -> Value:
        node = rows.node
        if node is not None and not node.regions and self.routes.sites.get(node) == division.site:
            return rows
        self.routes.here(None)
        same = self.routes.builder.apply("reshape", rows, attributes=ShapeAttributes(rows.tensor.shape))
        self.routes.here(division.site)
        return same

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if self._blocks_at is not None:
            self._forget_ends(site)
            return None
        routes, node = self.routes, site.node
        routes.builder.block.nodes = site.output
        routes.builder.name, routes.builder.span = node.name, node.span
        routes.here(None)
        if node.regions:
            return self._region(site)
        state = written(node, self._findings.sharded)
        if state is not None:
            return [self._updates.assign(node, site.operands, state)]
        if any(v in self._findings.states for v in node.results) and node.op == "read":
            return self._read(node, site.operands)
        if node in self._findings.picks:
            return [self._picked(node)] if node.result in self._demands.whole else node.results
        if node in self._findings.required:
            return self._by_rows(node) if any(self._demands.has(v) for v in node.results) else node.results
        return self._common(site)

    def _forget_ends(self, site: RewriteSite) -> None:
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
            if value in self._memory and self._findings.divisions[value] == division:
                self._rows[key] = self.routes.without_room(self._memory[value], axis, division)
            else:  # a parameter of the entry, or rows that lie elsewhere
                self._rows[key] = slice_rows(value, axis, division, self)
        return self._rows[key]

    def pushed(self, route: Routing, value: Value, axis: int) -> Value:
        """What belongs to numbers, at their owners."""
        return self._updates.pushed(route, value, axis)

    def is_split(self, value: Value) -> bool:
        """Whether it is by rows where it is made."""
        return value in self._findings.states

    def memory(self, value: Value, axis: int, division: Division) -> Value:
        """The same, where what lies behind them does no harm."""
        return self._memory[value] if value in self._memory else self.rows(value, axis, division)

    # ---------------------------------------------------------------- nodes --

    def _region(self, site: RewriteSite) -> Sequence[Value]:
        """A loop or branch, with the token of the network if anything travels inside."""
        node, routes = site.node, self.routes
        first = len(self._ends) - len(site.regions)
        ends, self._ends = self._ends[first:], self._ends[:first]
        parts = view(node, site.operands, site.regions)
        initial = [routes.network if v.type == NETWORK_TOKEN else v for v in parts.initial.all]
        for flow in carried(view(node)):
            row_split = self._findings.split_of(flow.result)
            if row_split is not None and flow.initial is not None:
                initial[flow.number] = self.rows(flow.initial, row_split[0].axis, row_split[1])
        operands = operands_of(parts, initial)
        talks = any(end.talks for end in ends)
        regions = [end.finished(block, talks) for block, end in zip(site.regions, ends, strict=True)]
        types = [self._type_by_rows(v) for v in node.results if not v.is_token]
        if talks or types != [v.type for v in node.results if not v.is_token]:
            region_node = with_types(node, operands, regions, types, routes.network if talks else None)
        else:
            region_node = with_parts(node, operands, regions)
        site.output.append(region_node)
        tokens = {v.type: v for v in region_node.results if v.is_token}
        routes.network = tokens.get(NETWORK_TOKEN, routes.network)
        is_distributed = any(inner in routes.sites for region in region_node.regions for inner in walk.nodes(region))
        routes.here(routes.caller.site if is_distributed else self._own_site(node))
        plain = [v for v in region_node.results if not v.is_token]
        results = [tokens[v.type] if v.is_token else plain[number] for number, v in enumerate(node.results)]
        self.values.update(zip(node.results, results, strict=True))
        for old, new in zip(node.results, results, strict=True):
            row_split = self._findings.split_of(old)
            if row_split is not None:
                self._rows[old, row_split[1], row_split[0].axis] = new
                if old in self._demands.whole:
                    self._brought_together(old)
        return [self.values[old] for old in node.results]

    def _common(self, site: RewriteSite) -> Sequence[Value]:
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
                self._rows[value, division, axis] = slice_rows(value, axis, division, self)
        return [self.whole(value) for value in node.results]

    def _own_site(self, node: Node) -> TaskSite | None:
        """Where a node has to be that has to do with the blocks of a task, or is better colocated with rows."""
        caller, division = self.routes.caller, self._colocated.get(node)
        site = division.site if division is not None else None
        if caller.count is None:
            return site
        sizes = symbols_of(node.attributes).union(*(symbols_of(v.type) for v in (*node.operands, *node.results)))
        is_own = caller.count in sizes or isinstance(node.attributes, ContributeAttributes | CombinedAttributes)
        return caller.site if is_own else site

    def _read(self, node: Node, operands: Sequence[Value]) -> Sequence[Value]:
        b, value = self.routes.builder, node.results[0]
        division, axis = self._findings.divisions[value], self._findings.states[value].axis
        shape = value.tensor.shape
        type_ = value.tensor.with_shape((*shape[:axis], dim(division.most), *shape[axis + 1 :]))
        read = b.add("read", operands, (type_, node.results[1].type), node.attributes)
        self.routes.here(division.site)
        self._memory[value] = read.results[0]
        if value in self._demands.whole:
            self._brought_together(value)
            return [self.values[value], read.results[1]]
        return read.results

    def _brought_together(self, value: Value) -> None:
        """Something split that is needed whole."""
        division, axis = self._findings.divisions[value], self._findings.states[value].axis
        others = [size.constant for number, size in enumerate(value.tensor.shape) if number != axis]
        width = 1
        for size in others:
            width *= size or 1
        states = {name: each for name, each in self._findings.sharded.items() if each.division == division}
        name, sharded = next(iter(states.items()))
        if None not in others and width > 1:
            user, reason = self._findings.reasons.get(value, (value.node, "all of it is used"))
            raise CompileError([mistakes.whole(value, origin(value) or name, sharded, user, reason)])
        self.values[value] = self.routes.whole(self.rows(value, axis, division), axis, division)

    def _picked(self, node: Node) -> Value:
        """Rows by number, where they are used."""
        source = node.operands[0]
        division, axis = self._findings.divisions[source], self._findings.states[source].axis
        memory = self.memory(source, axis, division)
        if isinstance(node.attributes, SliceAttributes):
            how = node.attributes
            ids = self.routes.numbers(how.starts[axis], how.sizes[axis], how.steps[axis])
            memory = self._sliced(memory, node.attributes, axis, division)
        else:
            ids = self.whole(node.operands[1])
        route = self.routes.routing(ids, division)
        self.routes.here(None)
        rows = self.routes.builder.apply("gather", memory, route.local, attributes=AxisAttributes(axis))
        self.routes.here(division.site)
        return self.routes.answer(route, rows, axis)

    def _sliced(self, memory: Value, how: SliceAttributes, axis: int, division: Division) -> Value:
        """A slice along the other axes."""
        starts, sizes, steps = list(how.starts), list(how.sizes), list(how.steps)
        starts[axis], sizes[axis], steps[axis] = dim(0), memory.tensor.shape[axis], 1
        self.routes.here(None)
        sliced = self.routes.builder.apply(
            "slice", memory, attributes=SliceAttributes(tuple(starts), tuple(sizes), tuple(steps))
        )
        self.routes.here(division.site)
        return sliced

    def _by_rows(self, node: Node) -> Sequence[Value]:
        """A node at the owners; what each of them finds is combined where the result is not split."""
        routes, b = self.routes, self.routes.builder
        division = self._findings.division(node)
        required = self._findings.required[node]
        operands = [
            self.rows(value, state.axis, division) if isinstance(state, Split) else self.whole(value)
            for value, state in zip(node.operands, required, strict=True)
        ]
        size = routes.size(division)
        routes.here(None)
        how = self._findings.combined.get(node)
        total = self._findings.means.get(node)
        attributes = self._attributes(node, size)
        result = b.node(total or node.op, operands, attributes)
        routes.here(division.site)
        for old, new in zip(node.results, result.results, strict=True):
            if old in self._findings.states:
                self._rows[old, division, self._findings.states[old].axis] = new
                if old in self._demands.whole:
                    self._brought_together(old)
            else:
                self.values[old] = new if how is None else routes.combined(new, how, division)
        if total is not None:
            self.values[node.result] = divided(self.values[node.result], node, division, self)
        return [self.whole(value) for value in node.results]

    def _attributes(self, node: Node, size: Dim) -> Attributes:
        """The attributes with the number of a task's rows in them."""
        state = self._findings.states.get(node.results[0])
        if state is None:
            return node.attributes
        return with_size(node.attributes, state.axis, size)
