"""The graph of one role: its nodes in program order, with sends behind values and receives before first uses.

Assumes what `needs` found. Guarantees a well-formed block: tokens are threaded anew, through the effects that are left,
and a message is an effect on `@network`, so that its order stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.partition.model import Edge, RankRole
from dfc.distribute.partition.needs import Needs
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.names import rename
from dfc.ir.regions import bodies, for_view, if_view, while_view
from dfc.ir.types import TensorType, TokenType
from dfc.ops.attributes import AxisAttributes, ForAttributes, TypeAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.communication import (
    NETWORK,
    OwnRowsAttributes,
    RecvAttributes,
    SendAttributes,
    SendRowsAttributes,
)
from dfc.ops.effects.mutexes import MutexAttributes


@dataclass(slots=True)
class _Frame:
    """A block that is being built. `tokens` are the current ones, `received` those it was entered with."""

    parameters: list[Value]
    nodes: list[Node] = field(default_factory=list[Node])
    tokens: dict[str, Value] = field(default_factory=dict[str, Value])
    received: dict[str, Value] = field(default_factory=dict[str, Value])

    def token(self, resource: str) -> Value:
        """The current token of a resource; the block receives it if this is its first use."""
        if resource not in self.tokens:
            self.tokens[resource] = self.received[resource] = Value(TokenType(resource), resource)
        return self.tokens[resource]

    def finished(self, outputs: Sequence[Value]) -> Block:
        names = sorted(self.received)
        tokens = [self.received[name] for name in names]
        return Block([*self.parameters, *tokens], self.nodes, [*outputs, *(self.tokens[name] for name in names)])


class RoleBlock:
    """Builds the block of one entry for one role. `sends` are the edges of values that this role sends."""

    def __init__(
        self,
        role: RankRole,
        needs: Needs,
        blocks: dict[Value, Block],
        edges: dict[Value, Edge],
        sends: set[Value],
        deals: dict[Node, Edge],
        state: Collection[str],
    ) -> None:
        self._role = role
        self._needs = needs
        self._runs = needs.runs[role]
        self._awaited = needs.awaited.get(role, {})
        self._blocks = blocks
        self._edges = edges
        self._sends = sends
        self._deals = deals
        self._state = state
        self._values: dict[Value, Value] = {}
        self._frames: list[tuple[Block, _Frame]] = []

    def build(self, block: Block, feeds: Sequence[Value], results: Sequence[Value]) -> Block:
        """The block with those of its parameters and outputs that concern the role."""
        frame = self._open(block, feeds)
        self._nodes(block)
        outputs = [self._value(value) for value in results]
        self._frames.pop()
        return frame.finished(outputs)

    def _open(self, block: Block, parameters: Sequence[Value]) -> _Frame:
        values = [Value(v.type, v.name, None, number) for number, v in enumerate(parameters)]
        self._values.update(zip(parameters, values, strict=True))
        frame = _Frame(values)
        self._frames.append((block, frame))
        for value in parameters:
            self._send(value, frame)
        return frame

    def _nodes(self, block: Block) -> None:
        frame = self._frames[-1][1]
        for node in block.nodes:
            if isinstance(node.attributes, OwnRowsAttributes):
                self._own_rows(node, node.attributes, frame)
            elif node in self._runs:
                copy = self._region(node) if node.regions else self._copy(node, frame)
                frame.nodes.append(copy)
                self._note_tokens(copy, frame)
                for value in node.results:
                    self._send(value, frame)
            elif node in self._awaited:
                self._value(self._awaited[node])

    def _own_rows(self, node: Node, how: OwnRowsAttributes, frame: _Frame) -> None:
        """Rows of a batch: sent by the task that has it, received by the others; taken from it where it is."""
        edge = self._deals.get(node)
        batch = node.operands[0]
        has_batch = self._role.runs(self._needs.sites[batch])
        is_speaker = edge is not None and self._speaks_for(edge)
        if edge is not None and has_batch and is_speaker:
            sent = SendRowsAttributes(edge.key, edge.source, edge.destinations, how.blocks, how.type)
            operands = [self._value(batch), frame.token(NETWORK)]
            types = (TokenType(NETWORK),)
            send = Node("send_rows", operands, types, attributes=sent, name=f"{edge.key}/send", span=node.span)
            frame.nodes.append(send)
            self._note_tokens(send, frame)
        if node not in self._runs:
            return
        if has_batch:
            here, before = self._value(batch), len(frame.nodes)
            output = Builder.appending(frame.nodes, name=node.name, span=node.span)
            self._values[node.result] = _rows_of(output, here, how)
            for number, helper in enumerate(frame.nodes[before:-1]):
                rename(helper, f"{node.name}/number_{number}")
            return
        assert edge is not None, node
        received = RecvAttributes(edge.key, edge.source, how.type)
        self._values[node.result] = self._received(received, f"{edge.key}/recv", node.span, frame)

    def _speaks_for(self, edge: Edge) -> bool:
        job, _, task = edge.source.partition(":")
        return self._role.runs(TaskSite(job, int(task)))

    def _copy(self, node: Node, frame: _Frame) -> Node:
        if isinstance(node.attributes, MutexAttributes):
            return self._at_mutex(node, node.attributes, frame)
        operands = [self._operand(value, frame) for value in node.operands]
        types = [value.type for value in node.results]
        copy = Node(node.op, operands, types, attributes=node.attributes, name=node.name, span=node.span)
        self._values.update(zip(node.results, copy.results, strict=True))
        return copy

    def _at_mutex(self, node: Node, how: MutexAttributes, frame: _Frame) -> Node:
        """Of the state that a mutex guards, that which is here: a runner, which it keeps out, is where its state is."""
        named = [value.type.resource for value in node.operands if isinstance(value.type, TokenType)]
        tokens = [frame.token(name) for name in named if name in self._state]
        guarded = tuple(name for name in how.guarded if name in self._state)
        types = [value.type for value in tokens]
        here = MutexAttributes(how.resource, guarded)
        return Node(node.op, tokens, types, attributes=here, name=node.name, span=node.span)

    def _operand(self, value: Value, frame: _Frame) -> Value:
        return frame.token(value.type.resource) if isinstance(value.type, TokenType) else self._value(value)

    def _note_tokens(self, node: Node, frame: _Frame) -> None:
        for value in node.results:
            if isinstance(value.type, TokenType):
                frame.tokens[value.type.resource] = value

    def _value(self, value: Value) -> Value:
        """What a value is here: received, if it comes from elsewhere, in the block that defines it."""
        if value not in self._values:
            defining = self._blocks[value]
            frame = next(frame for block, frame in self._frames if block is defining)
            self._receive(value, frame)
        return self._values[value]

    def _receive(self, value: Value, frame: _Frame) -> None:
        edge = self._edges[value]
        attributes = RecvAttributes(edge.key, edge.source, value.tensor)
        span = value.node.span if value.node is not None else edge.span
        self._values[value] = self._received(attributes, f"{edge.key}/recv", span, frame)

    def _received(self, attributes: RecvAttributes, name: str, span: Span, frame: _Frame) -> Value:
        types = (attributes.type, TokenType(NETWORK))
        node = Node("recv", [frame.token(NETWORK)], types, attributes=attributes, name=name, span=span)
        frame.nodes.append(node)
        self._note_tokens(node, frame)
        return node.result

    def _send(self, value: Value, frame: _Frame) -> None:
        edge = self._edges.get(value)
        if edge is None or value not in self._sends:
            return
        attributes = SendAttributes(edge.key, edge.source, edge.destinations)
        operands = [self._values[value], frame.token(NETWORK)]
        types = (TokenType(NETWORK),)
        node = Node("send", operands, types, attributes=attributes, name=f"{edge.key}/send", span=edge.span)
        frame.nodes.append(node)
        self._note_tokens(node, frame)

    def _region(self, node: Node) -> Node:
        """The region node with the results whose site is here."""
        kept = [number for number, v in enumerate(node.results) if not v.is_token and self._is_local(v)]
        if node.op == "if":
            region_node = self._branches(node, kept)
        elif node.op == "while":
            region_node = self._while(node, kept)
        else:
            region_node = self._for(node, kept)
        for number, value in zip(kept, region_node.results, strict=False):
            self._values[node.results[number]] = value
        return region_node

    def _is_local(self, value: Value) -> bool:
        return self._role.runs(self._needs.sites[value])

    def _branches(self, node: Node, kept: Sequence[int]) -> Node:
        parts = if_view(node)
        condition = self._value(parts.condition)
        ends = zip(bodies(parts), parts.after, strict=True)
        inside = [self._inside(region, (), [after.values[k] for k in kept]) for region, after in ends]
        return self._finished(node, [condition], kept, inside)

    def _while(self, node: Node, kept: Sequence[int]) -> Node:
        parts = while_view(node)
        first = [self._value(parts.initial.values[k]) for k in kept]
        tested, inside, after = parts.condition_inside.values, parts.inside.values, parts.after.values
        regions = [
            self._inside(parts.condition, [tested[k] for k in kept], (parts.test,)),
            self._inside(parts.body, [inside[k] for k in kept], [after[k] for k in kept]),
        ]
        return self._finished(node, first, kept, regions)

    def _for(self, node: Node, kept: Sequence[int]) -> Node:
        parts = for_view(node)
        carries = [k for k in kept if k < len(parts.initial.values)]
        first = [self._value(v) for v in (parts.start, parts.stop, *(parts.initial.values[k] for k in carries))]
        parameters = [parts.index, *(parts.inside.values[k] for k in carries)]
        part = self._inside(parts.body, parameters, [parts.after.tensors[k] for k in kept])
        return self._finished(node, first, kept, [part], replace(parts.attributes, carries=len(carries)))

    def _inside(
        self, block: Block, parameters: Sequence[Value], outputs: Sequence[Value]
    ) -> tuple[_Frame, Sequence[Value]]:
        frame = self._open(block, parameters)
        self._nodes(block)
        values = [self._value(value) for value in outputs]
        self._frames.pop()
        return frame, values

    def _finished(
        self,
        node: Node,
        operands: Sequence[Value],
        kept: Sequence[int],
        parts: Sequence[tuple[_Frame, Sequence[Value]]],
        attributes: ForAttributes | None = None,
    ) -> Node:
        """The node around its new regions: each of them receives the tokens that any of them uses."""
        names = sorted({name for frame, _ in parts for name in frame.received})
        for frame, _ in parts:
            for name in names:
                frame.token(name)
        outer = self._frames[-1][1]
        types = [*(node.results[k].type for k in kept), *(TokenType(name) for name in names)]
        return Node(
            node.op,
            [*operands, *(outer.token(name) for name in names)],
            types,
            attributes=attributes if attributes is not None else node.attributes,
            regions=[frame.finished(outputs) for frame, outputs in parts],
            name=node.name,
            span=node.span,
        )


def _rows_of(output: Builder, batch: Value, how: OwnRowsAttributes) -> Value:
    """The rows of the task's blocks, of a batch that is here."""
    count, size, *rest = how.type.shape
    rows = output.apply("iota", attributes=TypeAttributes(TensorType(I64, (count * size,))))
    rows = output.apply("add", rows, output.size(how.first * size))
    picked = output.apply("gather", batch, rows, attributes=AxisAttributes(0))
    return output.reshape(picked, (count, size, *rest))
