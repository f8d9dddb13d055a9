"""The entry of a replicated job: loops over the task's own blocks, and what all blocks make together.

    entry train[B](x: f32[B, 4])  ->  entry train[NB, B, FIRST](x: f32[NB, B, 4])
      let m = mean(x, axis = 0)         for i in 0..NB { contribute(mean(x[i]) / 8, FIRST + i) }
      w := m                            w := combined()

`B` is the size of one block from here on. Feeds that are cut have an axis of the task's blocks in front, and so have
results that are pieces. Assumes the `Cuts` of the entry. Guarantees that what the task does depends on which blocks it
has in no other way than by `NB` and `FIRST`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.replicate.arrival import by_arrival
from dfc.distribute.replicate.emit import Emitter, behind_numbers, with_blocks_at
from dfc.distribute.replicate.levels import arrange, common_requirements
from dfc.distribute.replicate.model import Combination
from dfc.distribute.replicate.small import Part, combined, small
from dfc.distribute.replicate.takes import gives_own_rows, own_rows
from dfc.ir import walk
from dfc.ir.dims import ONE, Symbol, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, DimCheck, Entry, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.regions import for_node, view
from dfc.ir.types import TensorType, TokenType, Type
from dfc.ops.attributes import AssignAttributes, AxisAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.communication import NETWORK, CombinedAttributes, ContributeAttributes
from dfc.ops.lowering.views import picked_axis
from dfc.ops.rules.sharding import COMMON, Partial, Split, State, quotient
from dfc.transforms.batch.analysis import BlockSplits

NETWORK_TOKEN = TokenType(NETWORK)


@dataclass(frozen=True, slots=True)
class Shape:
    """Names of the new sizes, and who combines. `counts_by_name`: calls say how many blocks there are, no feed."""

    count: Symbol
    first: Symbol
    job: str
    counts_by_name: bool = False


def rewritten(entry: Entry, splits: BlockSplits, shape: Shape) -> tuple[Entry, tuple[Combination, ...]]:
    """The entry over blocks, and what it combines."""
    work = _Work(entry.name, splits, shape, Emitter(splits))
    whole = _Straight(work, entry.block)
    block = whole.fill([s if isinstance(s := splits.state(v), Split) else COMMON for v in entry.block.outputs])
    if whole.talks:
        block = whole.with_network(block)
    cutting = splits.cutting
    checks = tuple(
        DimCheck(cutting.whole(c.left), c.relation, cutting.whole(c.right), c.reason, c.span) for c in entry.checks
    )
    dims = (shape.count, *entry.dims, shape.first)
    fed = (*entry.dim_feeds, *((shape.count,) if shape.counts_by_name else ()), shape.first)
    changed = replace(entry, block=name_nodes(block, Block()), dims=dims, dim_feeds=fed, checks=checks)
    return changed, tuple(work.combinations)


@dataclass(slots=True)
class _Work:
    """What all blocks of an entry share while it is rewritten."""

    name: str
    splits: BlockSplits
    shape: Shape
    emitter: Emitter
    stacked: dict[Value, Value] = field(default_factory=dict[Value, Value])
    combinations: list[Combination] = field(default_factory=list[Combination])

    def type_of(self, old: Value) -> Type:
        return self.splits.cutting.type_of(old.type, self.splits.state(old))

    def stack(self, type_: Type) -> TensorType:
        """The type of the task's pieces or parts, one behind the other."""
        assert isinstance(type_, TensorType)
        return type_.with_shape((dim(self.shape.count), *type_.shape))

    def parameter(self, old: Value) -> Value:
        """A parameter for an old one, which is common or a stack."""
        is_split = self.splits.is_split(old)
        new = Value(self.stack(self.type_of(old)) if is_split else self.type_of(old), old.name)
        (self.stacked if is_split else self.emitter.common)[old] = new
        return new


class _Straight:
    """Nodes that run once for all blocks of the batch: those of the entry, or of a region of a shared node."""

    def __init__(self, work: _Work, old: Block) -> None:
        self._work = work
        self._old = old
        self._splits = work.splits
        self._emitter = work.emitter
        self._levels = arrange(old, work.splits)
        self._output = Builder(Block())
        self._whole: set[Value] = set()
        self._start = self._network = Value(NETWORK_TOKEN, NETWORK)

    @property
    def talks(self) -> bool:
        """Whether anything is combined in it."""
        return self._network is not self._start

    def fill(self, required: Sequence[State]) -> Block:
        """The new block, without the token of the network; its outputs as they are wanted."""
        block = self._output.block
        block.parameters = tuple(self._work.parameter(p) for p in self._old.parameters)
        for level in range(len(self._levels)):
            for node in by_arrival(self._old, self._levels, level, self._splits, self._whole):
                self._once(node)
            if level < len(self._levels.local):
                self._loop(level)
        block.outputs = tuple(self._end(v, w) for v, w in zip(self._old.outputs, required, strict=True))
        return block

    def with_network(self, block: Block) -> Block:
        """The block with the token of the network among its parameters and outputs."""
        block.parameters = _in_order([*block.parameters, self._start])
        block.outputs = _in_order([*block.outputs, self._network])
        return block

    def _end(self, value: Value, required: State) -> Value:
        if isinstance(required, Split):
            return self._work.stacked[value]
        self._make_whole(value)
        return self._emitter.common[value]

    def _once(self, node: Node) -> None:
        """A node that runs once."""
        is_mixed = node in self._splits.uses and not self._splits.is_shared(node)
        for value, state in common_requirements(node, self._splits) if is_mixed else self._splits.required(node):
            if not self._splits.is_local(value, state):
                self._make_whole(value)
        if self._splits.is_shared(node):
            self._shared(node)
        elif is_mixed:
            self._emitter.common_results(self._output, node)
        else:
            self._emitter.node(self._output, node, [self._emitter.common[v] for v in node.operands if v.is_token])

    # ---------------------------------------------------------------- regions with loops inside --

    def _shared(self, node: Node) -> None:
        """A node with regions that combine something inside: once for all blocks."""
        if not node.regions:
            self._stacked(node)
            return
        use, work = self._splits.uses[node], self._work
        inner = [_Straight(work, region) for region in node.regions]
        regions = [
            each.fill(self._splits.outputs_required(node, region))
            for each, region in zip(inner, node.regions, strict=True)
        ]
        talks = any(each.talks for each in inner)
        if talks:
            regions = [each.with_network(region) for each, region in zip(inner, regions, strict=True)]
        plain = [v for v in node.operands if not v.is_token]
        operands = [
            work.stacked[v] if isinstance(w, Split) else self._emitter.common[v]
            for v, w in zip(plain, use.required, strict=True)
        ]
        tokens = [self._emitter.common[v] for v in node.operands if v.is_token]
        tokens += [self._network] if talks else []
        attributes = self._splits.cutting.attributes_of(node.attributes)
        carried = len(view(node).results.values)
        types = [self._result_type(v, number >= carried) for number, v in enumerate(node.results) if not v.is_token]
        tokens = list(_in_order(tokens))
        self._output.name, self._output.span = node.name, node.span
        copy = self._output.add(node.op, [*operands, *tokens], [*types, *(v.type for v in tokens)], attributes, regions)
        self._take(node, copy, carried)

    def _stacked(self, node: Node) -> None:
        """Rows that are picked or assigned by number, by the numbers of all blocks of the task at once."""
        use, work, output = self._splits.uses[node], self._work, self._output
        output.name, output.span = node.name, node.span
        if gives_own_rows(node, self._splits.cutting):
            pair = own_rows(output, self._emitter.common[node.operands[0]], self._network, work.shape, work.splits)
            work.stacked[node.result], self._network = pair
            return
        plain = [v for v in node.operands if not v.is_token]
        operands = [
            work.stacked[v] if isinstance(w, Split) else self._emitter.common[v]
            for v, w in zip(plain, use.required, strict=True)
        ]
        if isinstance(node.attributes, AssignAttributes):
            axis = operands[0].tensor.rank - 1 - behind_numbers(node)
            first = axis - (operands[1].tensor.rank - 1)
            rows = with_blocks_at(output, operands[0], first)
            tokens = [self._emitter.common[v] for v in node.operands if v.is_token]
            copy = output.add(node.op, (rows, operands[1], *tokens), [v.type for v in tokens], node.attributes)
            self._emitter.common[node.results[0]] = copy.results[0]
            return
        axis = picked_axis(node)
        if axis is None:
            work.stacked[node.result] = output.apply(node.op, *operands, attributes=node.attributes)
            return
        picked = output.apply("gather", *operands, attributes=AxisAttributes(axis))
        order = (axis, *range(axis), *range(axis + 1, picked.tensor.rank))
        work.stacked[node.result] = output.transpose(picked, order) if axis else picked

    def _result_type(self, value: Value, emitted: bool) -> Type:
        type_, state = self._work.type_of(value), self._splits.state(value)
        if not isinstance(state, Split):
            return type_
        assert isinstance(type_, TensorType)
        if not emitted:
            return self._work.stack(type_)
        return type_.with_shape((type_.shape[0], dim(self._work.shape.count), *type_.shape[1:]))

    def _take(self, node: Node, copy: Node, carried: int) -> None:
        """What became of the results: pieces that every iteration has emitted are stacked by block again."""
        new_tokens = {v.resource: v for v in copy.results if v.is_token}
        self._network = new_tokens.get(NETWORK, self._network)
        for number, old in enumerate(node.results):
            if old.is_token:
                self._emitter.common[old] = new_tokens[old.resource]
            elif not self._splits.is_split(old):
                self._emitter.common[old] = copy.results[number]
            elif number < carried:
                self._work.stacked[old] = copy.results[number]
            else:
                rows = copy.results[number]
                order = (1, 0, *range(2, rows.tensor.rank))
                self._work.stacked[old] = self._output.transpose(rows, order)

    # ---------------------------------------------------------------- loops --

    def _loop(self, level: int) -> None:
        """The loop over the blocks at one level."""
        nodes = self._levels.local[level]
        gives = [v for v in self._splits.combined if self._levels.phases.get(v) == level]
        kept = [v for node in nodes for v in node.results if v in self._levels.kept]
        if not nodes and not gives:
            return
        each = [(v, self._how(v), self._work.type_of(v)) for v in gives]
        behind = small(each, self._splits.cutting.blocks)
        gives = [v for v in gives if v not in behind]
        kept += [v for v in behind if v not in kept and v not in self._work.stacked]
        if nodes or gives or kept:
            self._round(nodes, gives, kept)
        self._combine(behind)

    def _round(self, nodes: Sequence[Node], gives: Sequence[Value], kept: Sequence[Value]) -> None:
        """A loop that does these nodes, contributes parts, and emits what is to be kept."""
        for node in nodes:
            for value, state in self._splits.required(node):
                if not self._splits.is_local(value, state):
                    self._make_whole(value)
        number, token = Value(TensorType(I64), "index"), Value(NETWORK_TOKEN, NETWORK)
        body = Block((number, token) if gives else (number,))
        inner = Builder(body, name=f"{self._work.name}/block")
        self._emitter.block = inner.apply("add", inner.size(self._work.shape.first), number)
        token = self._body(inner, nodes, gives, kept, token)
        body.outputs = (*(self._emitter.local[v] for v in kept), *((token,) if gives else ()))
        self._close(body, kept, bool(gives))

    def _body(
        self, inner: Builder, nodes: Sequence[Node], gives: Sequence[Value], kept: Sequence[Value], token: Value
    ) -> Value:
        produced: dict[Value, None] = dict.fromkeys(gives)
        self._fetch(inner, nodes, (*gives, *kept))
        for value in gives:
            if value in self._work.stacked:
                token = self._contribute(inner, value, token)
        for node in nodes:
            self._emitter.node(inner, node, only_split=True)
            for value in node.results:
                if value in produced:
                    token = self._contribute(inner, value, token)
        return token

    def _fetch(self, inner: Builder, nodes: Sequence[Node], gives: Sequence[Value]) -> None:
        """What the loop needs of what came before it: the block's rows of a stack, or the same nodes again."""
        own = {v for node in nodes for v in node.results}
        required = [v for node in nodes for v in self._locals(node)]
        pending = [*reversed(gives), *reversed(required)]
        while pending:
            value = pending[-1]
            stack = self._work.stacked.get(value)
            below = list[Value]() if stack is not None or value.node is None else self._locals(value.node)
            missing = [v for v in below if v not in own]
            if value not in own and missing:
                pending.extend(missing)
                continue
            pending.pop()
            if value in own:
                continue
            own.add(value)
            if stack is None:
                assert value.node is not None, value
                self._emitter.node(inner, value.node, only_split=True)
            else:
                number = inner.block.parameters[0]
                inner.name = self._key(value)
                self._emitter.local[value] = inner.apply("gather", stack, number, attributes=AxisAttributes(0))

    def _locals(self, node: Node) -> list[Value]:
        """The pieces and parts a node takes from outside itself."""
        local_values = [v for v, state in self._splits.required(node) if self._splits.is_local(v, state)]
        inside = {v for region in node.regions for v in walk.defined_values(region)}
        return [v for v in local_values if v not in inside]

    def _close(self, body: Block, kept: Sequence[Value], has_token: bool) -> None:
        output = self._output
        output.name = f"{self._work.name}/blocks"
        count = dim(self._work.shape.count)
        bounds = (output.size(0), output.size(count))
        tokens = (self._network,) if has_token else ()
        loop = output.append(for_node(*bounds, tokens, body, trips=count, origin=output))
        self._work.stacked.update(zip(kept, loop.results, strict=False))
        if has_token:
            self._network = loop.results[-1]

    # ---------------------------------------------------------------- combining --

    def _key(self, value: Value) -> str:
        prefix = f"{self._work.name}/"
        return value.name if value.name.startswith(prefix) else prefix + value.name

    def _how(self, value: Value) -> str:
        state = self._splits.state(value)
        return state.how if isinstance(state, Partial) else "concat"

    def _contribute(self, inner: Builder, value: Value, token: Value) -> Value:
        part = self._emitter.local[value]
        inner.name = self._key(value)
        if self._how(value) == "concat":
            part = inner.reshape(part, (ONE, *part.tensor.shape))
        attributes = ContributeAttributes(
            self._key(value), self._work.shape.job, self._splits.cutting.blocks, self._how(value)
        )
        assert self._emitter.block is not None
        inner.name = f"{self._key(value)}/part"
        return inner.add("contribute", (part, self._emitter.block, token), (NETWORK_TOKEN,), attributes).result

    def _combine(self, values: Sequence[Value]) -> None:
        """What is small, all at once."""
        if not values:
            return
        work, blocks, job = self._work, self._splits.cutting.blocks, self._work.shape.job
        self._output.name = f"{work.name}/sums"
        parts = [Part(v, self._key(v), work.stacked[v], v.node.span if v.node else self._output.span) for v in values]
        count, first = dim(work.shape.count), dim(work.shape.first)
        sums, self._network = combined(self._output, parts, count, first, job, blocks, self._network)
        for part, total in zip(parts, sums, strict=True):
            self._whole.add(part.value)
            self._emitter.common[part.value] = total
            work.combinations.append(Combination(part.key, part.value.name, part.span, "sum", total.tensor))

    def _make_whole(self, value: Value) -> None:
        """Has a value that is cut combined, once."""
        if value not in self._splits.combined or value not in self._levels.phases or value in self._whole:
            return
        self._whole.add(value)
        output, blocks, how = self._output, self._splits.cutting.blocks, self._how(value)
        output.name = f"{self._key(value)}/whole"
        if value.node is not None:
            output.span = value.node.span
        type_ = self._work.type_of(value)
        assert isinstance(type_, TensorType)
        if how == "concat":
            type_ = type_.with_shape((dim(blocks), *type_.shape))
        attributes = CombinedAttributes(self._key(value), self._work.shape.job, blocks, how, type_, 1.0)
        combined = output.add("combined", (self._network,), (type_, NETWORK_TOKEN), attributes)
        self._network = combined.results[1]
        self._emitter.common[value] = self._along(combined.result, value)
        self._work.combinations.append(Combination(attributes.key, value.name, output.span, how, type_))

    def _along(self, rows: Value, value: Value) -> Value:
        """A value from the stack of its pieces."""
        state = self._splits.state(value)
        if not isinstance(state, Split):
            return rows
        axis, shape = state.axis, rows.tensor.shape
        outer = self._splits.cutting.whole(state.outer or ONE)
        size = quotient(shape[axis + 1], outer)
        assert size is not None, value
        apart = self._output.reshape(rows, (*shape[: axis + 1], outer, size, *shape[axis + 2 :]))
        order = (*range(1, axis + 2), 0, *range(axis + 2, len(shape) + 1))
        moved = self._output.transpose(apart, order)
        return self._output.reshape(moved, (*shape[1 : axis + 1], outer * shape[0] * size, *shape[axis + 2 :]))


def _in_order(values: Sequence[Value]) -> tuple[Value, ...]:
    """Plain values, then tokens by resource."""
    plain = [v for v in values if not v.is_token]
    return (*plain, *sorted((v for v in values if v.is_token), key=lambda token: token.resource))
