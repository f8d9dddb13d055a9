"""Functional rebuild of blocks: a pass says what becomes of each node, this module does the bookkeeping.

Assumes that values are replaced only by values that dominate the place. Guarantees that the given blocks are never
changed, that what a pass leaves alone is shared (the same node, block or entry object), and that nothing recurses.

A pass is an object with `visit(site)`: it sees a node after its operands and regions were rebuilt, may append new
nodes to `site.output`, and returns the values that replace the node's results; `None` keeps the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Block, Entry, Graph, Node, Value


@dataclass(slots=True)
class RewriteSite:
    """One node of the old block and the place in the new block where it, or its replacement, goes."""

    node: Node
    operands: tuple[Value, ...]
    regions: tuple[Block, ...]
    output: list[Node]

    def kept(self) -> Node:
        """The node over the new operands and regions: the very same one if these did not change."""
        return with_parts(self.node, self.operands, self.regions)


class Pass:
    """Base of rewriting passes. `enter` and `leave` bracket each block, outermost included."""

    def enter(self, block: Block) -> None:
        """Called before the first node of a block is visited."""

    def descend(self, node: Node, operands: Sequence[Value], region: Block) -> None:
        """Called before a region of a node is entered, with the new operands of the node."""

    def parameters(self, block: Block) -> Sequence[Value]:
        """The parameters of the new block: normally those of the old one."""
        return block.parameters

    def begin(self, block: Block, output: list[Node]) -> None:
        """Called when the parameters are known, with the list of the new nodes, to which some may be appended."""

    def leave(self, block: Block) -> None:
        """Called after the last node of a block was visited."""

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        """The replacement of the node's results, or None to keep the node, as this base does with every one."""
        return None


@dataclass(slots=True)
class _Frame:
    block: Block
    parameters: Sequence[Value]
    position: int = 0
    output: list[Node] = field(default_factory=list[Node])
    regions: list[Block] = field(default_factory=list[Block])


def rebuild(block: Block, rewriting: Pass, values: dict[Value, Value] | None = None) -> Block:
    """The block with every node visited in program order, regions of a node before the node itself.

    `values` says what old values have become; it is extended.
    """
    values = values if values is not None else {}
    frames = [_open(block, values, rewriting)]
    while True:
        frame = frames[-1]
        _visit_plain(frame, values, rewriting)
        if frame.position == len(frame.block.nodes):
            rewriting.leave(frame.block)
            frames.pop()
            if not frames:
                return _finished(frame, values)
            frames[-1].regions.append(_finished(frame, values))
            continue
        node = frame.block.nodes[frame.position]
        if len(frame.regions) < len(node.regions):
            region = node.regions[len(frame.regions)]
            rewriting.descend(node, [values.get(value, value) for value in node.operands], region)
            frames.append(_open(region, values, rewriting))
        else:
            _visit(frame, node, values, rewriting)


def _open(block: Block, values: dict[Value, Value], rewriting: Pass) -> _Frame:
    rewriting.enter(block)
    parameters = rewriting.parameters(block)
    if parameters is not block.parameters:
        values.update(zip(block.parameters, parameters, strict=True))
    frame = _Frame(block, parameters)
    rewriting.begin(block, frame.output)
    return frame


def _visit_plain(frame: _Frame, values: dict[Value, Value], rewriting: Pass) -> None:
    """As `_visit`, for all nodes from here to the next one with regions: in most blocks all of them."""
    nodes, output, visit = frame.block.nodes, frame.output, rewriting.visit
    position = frame.position
    for position in range(frame.position, len(nodes)):
        node = nodes[position]
        if node.regions:
            break
        operands = node.operands
        if values and not values.keys().isdisjoint(operands):
            operands = tuple([values.get(value, value) for value in operands])
        site = RewriteSite(node, operands, (), output)
        results = visit(site)
        if results is None:
            if operands is node.operands:  # most nodes of most passes
                output.append(node)
                continue
            results = _keep(site)
        _note(node, results, values)
    else:
        position = len(nodes)
    frame.position = position


def _visit(frame: _Frame, node: Node, values: dict[Value, Value], rewriting: Pass) -> None:
    operands = tuple([values.get(value, value) for value in node.operands])
    site = RewriteSite(node, operands, tuple(frame.regions), frame.output)
    results = rewriting.visit(site)
    _note(node, _keep(site) if results is None else results, values)
    frame.position += 1
    frame.regions = []


def _keep(site: RewriteSite) -> Sequence[Value]:
    kept = site.kept()
    site.output.append(kept)
    return kept.results


def _note(node: Node, results: Sequence[Value], values: dict[Value, Value]) -> None:
    assert len(results) == len(node.results), node
    for old, new in zip(node.results, results, strict=True):
        if old is not new:
            values[old] = new


def _finished(frame: _Frame, values: Mapping[Value, Value]) -> Block:
    block = frame.block
    outputs = tuple(values.get(value, value) for value in block.outputs)
    # nodes and values compare by identity
    same = frame.output == block.nodes and outputs == block.outputs and frame.parameters is block.parameters
    return block if same else Block(frame.parameters, frame.output, outputs)


def with_parts(node: Node, operands: Sequence[Value], regions: Sequence[Block]) -> Node:
    """The node over other operands and regions; itself if they are the same."""
    if tuple(operands) == node.operands and tuple(regions) == node.regions:
        return node
    types = [value.type for value in node.results]
    return Node(node.op, operands, types, attributes=node.attributes, regions=regions, name=node.name, span=node.span)


class Cloner(Pass):
    """Copies nodes under a map from old to new values, which it extends. `rename` makes the names of the copies."""

    def __init__(self, values: Mapping[Value, Value] | None = None, rename: Callable[[str], str] = str) -> None:
        self.values: dict[Value, Value] = dict(values or {})
        self.rename = rename

    def value(self, value: Value) -> Value:
        return self.values.get(value, value)

    def parameters(self, block: Block) -> Sequence[Value]:
        return [Value(p.type, self.rename(p.name), None, p.index) for p in block.parameters]

    def visit(self, site: RewriteSite) -> Sequence[Value]:
        node = site.node
        copy = Node(
            node.op,
            site.operands,
            [v.type for v in node.results],
            attributes=node.attributes,
            regions=site.regions,
            name=self.rename(node.name),
            span=node.span,
        )
        site.output.append(copy)
        return copy.results

    def inline(self, nodes: Sequence[Node], output: list[Node]) -> None:
        """Appends copies of nodes (regions included) to `output`."""
        output.extend(rebuild(Block((), nodes), self, self.values).nodes)

    def call(self, block: Block, arguments: Sequence[Value], output: list[Node]) -> tuple[Value, ...]:
        """Appends copies of a block's nodes with arguments for its parameters; returns what its outputs became."""
        self.values.update(zip(block.parameters, arguments, strict=True))
        self.inline(block.nodes, output)
        return tuple(self.value(v) for v in block.outputs)

    def block(self, block: Block) -> Block:
        """A copy of a block with parameters of its own."""
        return rebuild(block, self, self.values)


def map_blocks(graph: Graph, change: Callable[[Block], Block]) -> Graph:
    """The graph with every outermost block changed; the same graph, or entries of it, where nothing changed."""
    resources = dict(graph.resources)
    for name, resource in graph.resources.items():
        if resource.initial is not None:
            initial = change(resource.initial)
            if initial is not resource.initial:
                resources[name] = replace(resource, initial=initial)
    changed = Graph(
        graph.name,
        resources,
        {name: with_block(entry, change(entry.block)) for name, entry in graph.entries.items()},
        {name: with_block(entry, change(entry.block)) for name, entry in graph.tests.items()},
        graph.settings,
        graph.source,
    )
    return graph if _same_parts(graph, changed) else changed


def with_block(entry: Entry, block: Block) -> Entry:
    return entry if block is entry.block else replace(entry, block=block)


def _same_parts(a: Graph, b: Graph) -> bool:
    pairs = ((a.resources, b.resources), (a.entries, b.entries), (a.tests, b.tests))
    return all(left[name] is right[name] for left, right in pairs for name in left)
