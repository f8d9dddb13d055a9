"""replicate: one entry on many blocks of its batch, with the same bits for every number of tasks.

    replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8

means: the batch of B is computed as 8 equal pieces; what is summed over the batch is summed in each piece, and these
sums are added in a fixed binary tree over the pieces. So the result depends on the number of blocks and not on who
computes them. It may differ from that of the undivided program in the last bits, because there a sum over the whole
batch has another tree.

The parts: `levels` the order of loops and common nodes, `arrival` that of common nodes which wait for sums, `emit` and
`rewrite` the new entry, `padded`, `short` and `small` what batches that are short and sums that are small get besides,
`mistakes` what cannot be done. How values depend on the batch is said by `dfc.transforms.batch`, by the rules of
sharding in the records of ops (`dfc.ops.rules`).

In: a graph and what a deployment says of its entries. Out: the graph with replicated entries. Read first: `rewrite`,
then `levels` and `emit`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dfc.diagnostics.diagnostic import CompileError, Diagnostic
from dfc.distribute.deployment.model import Replicate
from dfc.distribute.pipelines.connected import queue_names, queues_of, state_of
from dfc.distribute.replicate import mistakes
from dfc.distribute.replicate.model import Combination, Piece, Replication
from dfc.distribute.replicate.rewrite import Shape, rewritten
from dfc.distribute.replicate.takes import CuttingTakes, split_takes
from dfc.ir import walk
from dfc.ir.dims import ONE, Symbol
from dfc.ir.graph import Entry, Graph
from dfc.ir.measured import measured_in
from dfc.ops.rules.lookup import rules_of
from dfc.ops.rules.sharding import Cutting, Split
from dfc.ops.sizes.equality import sizes_compared
from dfc.transforms.batch.analysis import BlockSplits, analyse
from dfc.transforms.batch.degrees import degrees, gradients, is_wrong, sums
from dfc.transforms.batch.draws import numbered
from dfc.transforms.batch.row_uses import RowUses
from dfc.transforms.scalar.dce import dce

__all__ = ["Combination", "Piece", "Replication", "RowUses", "replicate"]


def replicate(
    graph: Graph, statement: Replicate, rows_of: Callable[[Entry], RowUses] = lambda _: RowUses()
) -> tuple[Graph, Replication]:
    """The graph with one entry over blocks, and what a cluster needs to know of it; raises `CompileError`. `rows_of`
    says what the entry does to state whose rows lie in several tasks.

    Assumes a graph after all passes; the entry and the job exist."""
    entry = graph.entries[statement.entry]
    symbol = next((each for each in entry.dims if str(each) == statement.split), None)
    has_queues = symbol is None and {*queue_names(statement.split)} <= queues_of(entry)
    if symbol is None and not has_queues:
        raise CompileError([mistakes.no_such_size(statement, entry)])
    alone = next((node for node in walk.nodes(entry.block) if rules_of(node).alone and state_of(node) is None), None)
    if alone is not None:
        raise CompileError([mistakes.differs_between_tasks(statement, alone)])
    with sizes_compared():
        entry, cutting = _split_entry(entry, statement, symbol)
        rows = rows_of(entry)
        if isinstance(cutting, CuttingTakes):
            rows = replace(rows, stacked=rows.stacked | cutting.gathers)
        splits = analyse(entry, cutting, rows)
        feeds = _feeds(entry, splits)
        if not feeds and not has_queues:
            raise CompileError([mistakes.no_feed(statement, entry)])
        is_checked = statement.is_checked and not has_queues
        remarks = _check_combine(graph, entry, statement, splits, rows) if is_checked else ()
        shape = Shape(_free(entry, "NB"), _free(entry, "FIRST"), statement.job, counts_by_name=has_queues)
        changed, combinations = rewritten(entry, splits, shape)
        after = dce(replace(graph, entries={**graph.entries, entry.name: changed}))
    results = {
        name: Piece(state.axis, state.outer or ONE)
        for name, value in zip(entry.result_names, entry.block.outputs, strict=False)
        if isinstance(state := splits.state(value), Split)
    }
    about = Replication(
        entry.name,
        statement.job,
        statement.blocks,
        cutting.symbol,
        shape.count,
        shape.first,
        feeds,
        results,
        combinations,
        remarks,
        statement.split if has_queues else "",
    )
    return after, about


def _split_entry(entry: Entry, statement: Replicate, symbol: Symbol | None) -> tuple[Entry, Cutting]:
    """The entry as it is looked at, and how: by a size of its own, or by the batches of a queue."""
    if symbol is None:
        return split_takes(entry, statement)
    cutting = Cutting(symbol, statement.blocks)
    return numbered(entry, cutting), cutting


def _check_combine(
    graph: Graph, entry: Entry, statement: Replicate, splits: BlockSplits, rows: RowUses
) -> tuple[Diagnostic, ...]:
    """Whether gradients grow with the batch as the file says: an error if not, a warning if that is unclear."""
    trained = frozenset(name for name, resource in graph.resources.items() if resource.trained)
    value_degrees = degrees(entry, splits.cutting)
    judged = gradients(entry, splits, trained, rows, value_degrees)
    for value, degree in judged.items():
        if degree is not None and is_wrong(statement.combine, degree):
            losses = sums(entry, splits, value_degrees)
            message = mistakes.wrong_combine(statement, value, degree.power, losses[0] if losses else None)
            raise CompileError([message])
    unclear = next((value for value, degree in judged.items() if degree is None), None)
    return () if unclear is None else (mistakes.unclear_combine(statement, unclear),)


def _feeds(entry: Entry, splits: BlockSplits) -> dict[str, Piece]:
    pieces: dict[str, Piece] = {}
    for name, value in zip(entry.parameter_names, entry.block.parameters, strict=False):
        state = splits.state(value)
        if isinstance(state, Split):
            pieces[name] = Piece(state.axis, state.outer or ONE)
    return pieces


def _free(entry: Entry, name: str) -> Symbol:
    """A size with this name, or the first free one like it."""
    taken = {symbol.name for symbol in (*entry.dims, *measured_in(entry.block))}
    while name in taken:
        name += "_"
    return Symbol(name)
