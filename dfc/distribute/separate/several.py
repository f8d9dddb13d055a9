"""What several tasks hand over for one update, in the mode `backup`: what becomes of each value.

Assumes that all of them have read the same variables. Guarantees one rule for each value: what no part of the batch
decides is the same from all, sizes are added, gradients are averaged or added; anything else is a `CompileError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.distribute.deployment.model import Replicate
from dfc.distribute.separate.splitting import asked, is_float, split_symbol
from dfc.ir import walk
from dfc.ir.dims import Dim, Symbol
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.symbols import symbols_of
from dfc.ir.types import TensorType
from dfc.ops.attributes import DimAttributes
from dfc_runtime.formats.cluster import FIRST, SUM


def handed_by_several(entry: Entry, handed: Sequence[Value], statement: Replicate) -> tuple[str, ...]:
    """What becomes of each value that several tasks hand over for one update: first, mean or sum; none where each step
    is an update."""
    if statement.mode != "backup":
        return ()
    symbol = split_symbol(entry, statement)
    differing = _of_batch(entry.block, symbol)
    return tuple(_of_several(value, symbol, statement) if value in differing else FIRST for value in handed)


def of_sizes_and_feeds(entry: Entry, statement: Replicate) -> frozenset[Node]:
    """Nodes that an update of several steps computes for itself: they are made of sizes, and of what is fed to all."""
    if statement.mode != "backup":
        return frozenset()
    symbol = split_symbol(entry, statement)
    known = {value for value in entry.block.parameters if not value.is_token and not _has(symbol, value)}
    nodes: list[Node] = []
    for node in entry.block.nodes:
        is_plain = not (node.regions or any(_has(symbol, value) for value in node.results))
        if is_plain and known.issuperset(node.operands):
            known.update(node.results)
            if node.op != "dim":
                nodes.append(node)
    return frozenset(nodes)


def _of_batch(block: Block, symbol: Symbol) -> set[Value]:
    """The values that depend on which part of the batch a task has."""
    differing = {value for value in block.parameters if not value.is_token and _has(symbol, value)}
    for node in block.nodes:
        inside = (node, *(each for region in node.regions for each in walk.nodes(region)))
        if not differing.isdisjoint(walk.inputs(node)) or any(symbol in set(_symbols(each)) for each in inside):
            differing.update(node.results)
    return differing


def _symbols(node: Node) -> Iterator[Symbol]:
    yield from symbols_of(node.attributes)
    for value in node.results:
        yield from symbols_of(value.type)


def _has(symbol: Symbol, value: Value) -> bool:
    return isinstance(value.type, TensorType) and symbol in symbols_of(value.type)


def _of_several(value: Value, symbol: Symbol, statement: Replicate) -> str:
    node = value.node
    if node is not None and isinstance(node.attributes, DimAttributes):
        if _is_proportional(node.attributes.size, symbol):
            return SUM
    elif is_float(value) and not _has(symbol, value):
        return statement.combine
    span = node.span if node is not None else statement.span
    title = "an update by what is neither one gradient for all examples nor the same for all tasks"
    second = [asked(statement)]
    raise CompileError(
        [error(NOT_SUPPORTED_YET, f"{title} is not supported in the mode `backup`", span, secondary=second)]
    )


def _is_proportional(size: Dim, symbol: Symbol) -> bool:
    """Whether sizes of parts add up to the size of the whole."""
    one = size.substitute({symbol: 1})
    return symbol not in one.symbols() and size == one * symbol
