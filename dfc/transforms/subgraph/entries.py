"""A program with some of its entries alone, and the state and runners that these need: one for inference, say, of a
program that trains.

    var momentum: f32[3] = 0                             var w: f32[3] = 1
    var w: f32[3] = 1                              ->
    entry train(x, rate) { .. momentum .. w .. }         readonly entry predict(x) { .. w .. }
    readonly entry predict(x) { .. w .. }

Assumes a graph as the front end made it. Guarantees a graph that verifies. `init` stays for the state that does. What
an entry saves or restores counts as state that it needs only where another one uses it, too: a checkpoint of such a
program is a part of one of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from dfc.ir.graph import Block, Entry, Graph, ResourceKind, Value
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ops.effects.checkpoints import CHECKPOINTS, checkpoint_over
from dfc.transforms.scalar.dead_results import without_idle_tokens
from dfc.transforms.scalar.prune import prune_block
from dfc_runtime.module import INIT
from dfc_runtime.names import did_you_mean


def entry_mistake(graph: Graph, names: Collection[str]) -> str:
    """What is wrong with the names of entries to keep; "" if nothing is."""
    callable_names = [name for name, entry in graph.entries.items() if not entry.is_runner]
    for name in names:
        if name in graph.entries and name not in callable_names:
            return f"`{name}` is a runner, which is kept where an entry needs it"
        if name not in callable_names:
            listed = ", ".join(callable_names) or "none"
            return f"there is no entry {name!r}{did_you_mean(name, callable_names)}; entries: {listed}"
    return ""


def keep_entries(graph: Graph, names: Collection[str]) -> Graph:
    """The program with these entries, which it has."""
    kept = {name for name in graph.entries if name in names}
    used = _used(graph.entries[name] for name in kept)
    while added := [name for name in graph.entries if name not in kept and _feeds(graph, name, used)]:
        kept |= {*added}
        used |= _used(graph.entries[name] for name in added)
    entries = {name: _without_state(entry, used) for name, entry in graph.entries.items() if name in kept}
    if used and INIT in graph.entries and INIT not in kept:
        entries[INIT], used = _initialiser(graph.entries[INIT], used)
        kept.add(INIT)
    return replace(
        graph,
        resources={name: resource for name, resource in graph.resources.items() if name in used},
        entries={name: entries[name] for name in graph.entries if name in kept},
        bound={name: value for name, value in graph.bound.items() if name.partition("/")[0] in kept},
    )


def _tokens(block: Block) -> set[str]:
    return {value.resource for value in block.parameters if value.is_token}


def _used(entries: Iterable[Entry]) -> set[str]:
    """The state that entries do more with than to save or restore it."""
    return {name for entry in entries for name in _tokens(_without_checkpoints(entry.block))}


def _without_checkpoints(block: Block) -> Block:
    return without_idle_tokens(rebuild(block, _Checkpoints(frozenset())))


def _without_state(entry: Entry, used: Collection[str]) -> Entry:
    """The entry, which saves and restores what is used alone."""
    return replace(entry, block=without_idle_tokens(rebuild(entry.block, _Checkpoints(frozenset(used)))))


class _Checkpoints(Pass):
    """Has checkpoints hold this state alone; one that would hold none goes."""

    def __init__(self, state: frozenset[str]) -> None:
        self._state = state

    def visit(self, site: RewriteSite) -> list[Value] | None:
        if site.node.op not in CHECKPOINTS:
            return None
        path, *tokens = site.operands
        kept = [token for token in tokens if token.resource in self._state]
        if len(kept) == len(tokens):
            return None
        behind = {token.resource: token for token in tokens}
        if kept:
            node = checkpoint_over(site.node, path, kept)
            site.output.append(node)
            behind |= {result.resource: result for result in node.results}
        return [behind[result.resource] for result in site.node.results]


def _feeds(graph: Graph, name: str, used: Collection[str]) -> bool:
    """Whether this is a runner at a queue that is used."""
    entry = graph.entries[name]
    tokens = _tokens(entry.block) if entry.is_runner else set[str]()
    return any(state in used and graph.resources[state].kind is ResourceKind.QUEUE for state in tokens)


def _initialiser(entry: Entry, used: set[str]) -> tuple[Entry, set[str]]:
    """`init` for the state that is used, and all state that it uses for that."""
    results = [value for value in entry.block.outputs if not value.is_token]
    while True:
        outputs = [value for value in entry.block.outputs if value.is_token and value.resource in used]
        block = prune_block(Block(entry.block.parameters, entry.block.nodes, [*results, *outputs]))
        needed = {operand for node in block.nodes for operand in node.operands if operand.is_token}
        more = {value.resource for value in needed if value in set(block.parameters)} - used
        if not more:
            break
        used = used | more
    parameters = [value for value in block.parameters if not value.is_token or value.resource in used]
    return replace(entry, block=Block(parameters, block.nodes, block.outputs)), used
