"""shard: state whose rows lie in all tasks of a job.

    shard "table" axis 0 over ps by modulo

    let x = table[ids]             ids go to the owners of the rows, and rows come back
    table[ids] -= rate * rows      ids and rows go to the owners, which subtract them
    let s = table @ v              every owner multiplies its rows; s is brought together where it is needed whole

The parts: `gather_hoisting` moves gathers of rows before loops, `colocation` says what is better done where rows are,
on the whole batch, `analysis` and `regions` what the owners have of each value, `demands` who needs it in which form,
`rewrite`, `updates` and `parts` the new entry, `routes` the messages, `mistakes` what would move a table. In loops and
branches the owners go through the same iterations, with messages in each of them.

Assumes entries that are replicated already: what the tasks of a job have of their blocks stands in stacks at the top.
Guarantees that only numbers and rows of what is picked travel, or values without the other axes of a table; and that
state of the same rows which belongs to a variable (the slots of an optimiser) lies as that does.

In: a graph and what a deployment divides. Out: the graph with routed rows. Read first: `model`, then `analysis` and
`rewrite`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dfc.distribute.deployment.model import Shard
from dfc.distribute.shard.analysis import Findings, analyse
from dfc.distribute.shard.colocation import colocated_with_rows
from dfc.distribute.shard.demands import chain, demands_of, is_by_number
from dfc.distribute.shard.gather_hoisting import hoist_gathers
from dfc.distribute.shard.model import Caller, Division, ResultRows, RowEdge, Sharded, ShardedGraph
from dfc.distribute.shard.rewrite import rewritten
from dfc.ir import walk
from dfc.ir.dims import dim
from dfc.ir.graph import Block, Entry, Graph, Node
from dfc.ir.names import name_nodes
from dfc.ops.attributes import AssignAttributes, ResourceAttributes, ScatterAttributes
from dfc.ops.lowering.views import picked_axis
from dfc.transforms.batch.row_uses import RowUses
from dfc.transforms.scalar.dce import dce_block

__all__ = [
    "Caller",
    "Division",
    "ResultRows",
    "RowEdge",
    "Sharded",
    "ShardedGraph",
    "hoist_gathers",
    "row_uses",
    "shard",
    "sharded_state",
]


def sharded_state(graph: Graph, statements: Mapping[str, Shard], tasks: Mapping[str, int]) -> dict[str, Sharded]:
    """All state that is divided, by name: what statements name, and slots of it that have as many rows."""
    sharded: dict[str, Sharded] = {}
    for name, statement in statements.items():
        rows = graph.resources[name].type.shape[statement.axis].constant
        assert rows is not None, name
        division = Division(statement.job, statement.rule, rows, tasks[statement.job])
        whole = graph.resources[name].type.shape
        for other, resource in graph.resources.items():
            is_slot = f"[{name}]" in other and resource.type.shape == whole and other not in statements
            if other == name or is_slot:
                sharded[other] = Sharded(division, statement.axis, len(whole), statement)
    return sharded


def row_uses(entry: Entry, sharded: Mapping[str, Sharded]) -> RowUses:
    """What `replicate` has to know of state that will be divided."""
    findings = analyse(entry.block, sharded)
    picked = {node for node in findings.picks if picked_axis(node) is not None}
    assigned = {node for node in walk.nodes(entry.block) if _assigned(node, sharded)}
    updates = {maker for node in assigned for maker in _at_owners(node, findings)}
    whole, colocated = frozenset(findings.required), frozenset(colocated_with_rows(entry.block, findings))
    return RowUses(frozenset(picked | assigned | updates), whole, colocated, _scattered(entry.block, findings))


def _scattered(block: Block, findings: Findings) -> frozenset[Node]:
    """What adds rows to zeros of which the owners of these rows need their own: a dense gradient of picked rows."""
    rows = demands_of(block, findings).rows
    return frozenset(
        node
        for node in walk.nodes(block)
        if isinstance(node.attributes, ScatterAttributes)
        and any(axis == node.attributes.axis for _, axis in rows.get(node.result, ()))
    )


def _at_owners(node: Node, findings: Findings) -> Iterator[Node]:
    """The nodes of a right side that can be done where the rows lie."""
    state = findings.sharded[node.attributes.resource] if isinstance(node.attributes, AssignAttributes) else None
    if state is not None and is_by_number(node, state.axis, state.division):
        for value in chain(node, node.operands[0], state.axis, findings)[0]:
            if value.node is not None:
                yield value.node


def _assigned(node: Node, sharded: Mapping[str, Sharded]) -> bool:
    return isinstance(node.attributes, AssignAttributes) and node.attributes.resource in sharded


def shard(graph: Graph, sharded: Mapping[str, Sharded], callers: Mapping[str, Caller]) -> ShardedGraph:
    """The graph of what each task does; `callers` says where each entry uses rows. Raises `CompileError`."""
    result = ShardedGraph(replace(graph, resources=dict(graph.resources), entries=dict(graph.entries)), sharded)
    for name, state in sharded.items():
        resource = graph.resources[name]
        shape, axis = resource.type.shape, state.axis
        memory = resource.type.with_shape((*shape[:axis], dim(state.division.most), *shape[axis + 1 :]))
        result.graph.resources[name] = replace(resource, type=memory, initial=None)
    for name, entry in graph.entries.items():
        if any(_uses(node, sharded) for node in walk.nodes(entry.block)):
            result.graph.entries[name] = _entry(entry, callers[name], result)
    return result


def _uses(node: Node, sharded: Mapping[str, Sharded]) -> bool:
    return isinstance(node.attributes, ResourceAttributes | AssignAttributes) and node.attributes.resource in sharded


def _entry(entry: Entry, caller: Caller, result: ShardedGraph) -> Entry:
    findings: Findings = analyse(entry.block, result.sharded, caller.count)
    changed, routes, result.results[entry.name] = rewritten(entry, findings, demands_of(entry.block, findings), caller)
    block = name_nodes(changed.block, entry.block)
    result.sites.update({node.name: site for node, site in routes.sites.items()})
    result.edges += routes.edges
    result.combined += routes.combined_edges
    return replace(changed, block=dce_block(block))
