"""Batches that come out of a queue instead of a feed: each block of the batch has its own rows of what is taken.

    let x = queue_take(..)    ->   let whole = queue_take(..)
                                   let x = gather(whole, iota(128), axis = 0)

The take runs once for the whole batch, on the task of its queue. The numbers of the rows are what is cut, so what the
gather picks is: each task has the rows of its blocks (`own_rows`), which `partition` has sent to it. Assumes an entry
after all passes. Guarantees that what is cut has a first axis of the same size in all fields, which is a multiple of
the blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError
from dfc.distribute.deployment.model import Replicate
from dfc.distribute.pipelines.connected import queue_names
from dfc.distribute.replicate import mistakes
from dfc.ir import walk
from dfc.ir.dims import ZERO, Dim, Symbol, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Entry, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, rebuild, with_block
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxisAttributes, TypeAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.communication import OwnRowsAttributes
from dfc.ops.effects.queues import TAKE, TAKES, TakeAttributes
from dfc.ops.rules.sharding import Cutting
from dfc.transforms.batch.analysis import BlockSplits

ROWS = "rows"


@dataclass(frozen=True, slots=True)
class CuttingTakes(Cutting):
    """Constant sizes, of which those that the numbers in `starts` have are cut; `gathers` pick by them. No size has the
    symbol in it."""

    starts: frozenset[Node] = frozenset()
    gathers: frozenset[Node] = frozenset()

    def can_split(self, size: Dim) -> bool:
        return size % dim(self.blocks) == ZERO

    def can_start(self, node: Node, size: Dim) -> bool:
        return node in self.starts

    def first_axis(self, shape: Sequence[Dim]) -> int | None:
        return None


class TaskBlocks(Protocol):
    """The sizes that say how many blocks a task has, and which is its first."""

    @property
    def count(self) -> Symbol: ...

    @property
    def first(self) -> Symbol: ...


def gives_own_rows(node: Node, cutting: Cutting) -> bool:
    """Whether a node picks the rows of blocks out of what was taken."""
    return isinstance(cutting, CuttingTakes) and node in cutting.gathers


def own_rows(
    output: Builder, batch: Value, network: Value, blocks: TaskBlocks, splits: BlockSplits
) -> tuple[Value, Value]:
    """The rows of a task's blocks, of a batch that one task has; and the token behind."""
    size, *rest = batch.tensor.shape
    type_ = batch.tensor.with_shape((dim(blocks.count), splits.cutting.part(size), *rest))
    attributes = OwnRowsAttributes(splits.cutting.blocks, dim(blocks.first), type_)
    rows, behind = output.add("own_rows", (batch, network), (type_, network.type), attributes).results
    return rows, behind


def takes_of(entry: Entry, queues: Collection[str]) -> list[Node]:
    """The takes of an entry from queues."""
    return [node for node in walk.nodes(entry.block) if node.op in TAKES and _queue(node) in queues]


def split_takes(entry: Entry, statement: Replicate) -> tuple[Entry, CuttingTakes]:
    """The entry with numbers of rows behind its takes, and how these are cut; raises `CompileError`."""
    queues = queue_names(statement.split)
    for node in takes_of(entry, queues):
        size = batch_size(node)
        if node.op != TAKE or size is None or size % dim(statement.blocks) != ZERO:
            raise CompileError([mistakes.uneven_takes(statement, node, size)])
    rows = _Rows(queues)
    block = rebuild(entry.block, rows)
    symbol = Symbol("B")
    cutting = CuttingTakes(symbol, statement.blocks, frozenset(rows.numbers), frozenset(rows.gathers))
    return with_block(entry, name_nodes(block, entry.block)), cutting


def batch_size(node: Node) -> Dim | None:
    """The first axis of what is taken; None if there is none that all fields with axes have."""
    sizes = {value.tensor.shape[0] for value in node.results if not value.is_token and value.tensor.shape}
    return next(iter(sizes)) if len(sizes) == 1 else None


def _queue(node: Node) -> str:
    assert isinstance(node.attributes, TakeAttributes)
    return node.attributes.resource


class _Rows(Pass):
    """Numbers of rows behind takes; `numbers` are the nodes that make them, `gathers` those that use them."""

    def __init__(self, queues: Collection[str]) -> None:
        self._queues = queues
        self.numbers: list[Node] = []
        self.gathers: list[Node] = []

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node.op != TAKE or _queue(site.node) not in self._queues:
            return None
        take = site.kept()
        site.output.append(take)
        size = batch_size(take)
        assert size is not None
        output = Builder.appending(site.output, name=f"{take.name}/{ROWS}", span=take.span)
        rows = output.apply("iota", attributes=TypeAttributes(TensorType(I64, (size,))))
        assert rows.node is not None
        self.numbers.append(rows.node)
        first = AxisAttributes(0)
        results: list[Value] = []
        for value in take.results:
            if value.is_token or not value.tensor.shape:
                results.append(value)
                continue
            results.append(output.apply("gather", value, rows, attributes=first))
            self.gathers.append(output.block.nodes[-1])
        return results
