"""An entry taken apart: what each replica computes, and what its updates do where the state lies.

    entry train[B](x: f32[B], rate: f32) -> (loss: f32) {      entry train[B](x: f32[B], rate: f32, current_w: f32)
      let loss = mean(square(w * x))                              -> (loss: f32, dw: f32, rate_handed: f32) { .. }
      w -= rate * grad(loss, w)                           ->   entry train_update(dw: f32, rate_handed: f32) {
      return loss                                                w -= rate_handed * dw
    }                                                          }

The first has no state: it is fed the variables that it reads, as somebody gave them to it. The second reads what is
there when it runs. What is handed over are gradients, and whatever else an update uses that its state does not decide.
Assumes the graph as it was elaborated. Guarantees two ordinary entries; what cannot be two is a `CompileError`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.distribute.deployment.entries import batches_of_queues
from dfc.distribute.deployment.model import Replicate
from dfc.distribute.separate.cone import Cone, gradient_cone
from dfc.distribute.separate.reads import ReadsReplaced, variable_read_by
from dfc.distribute.separate.several import handed_by_several, of_sizes_and_feeds
from dfc.distribute.separate.splitting import check_split
from dfc.distribute.separate.taken import splits_queues, without_takes
from dfc.ir import walk
from dfc.ir.dims import Symbol
from dfc.ir.graph import Apart, Block, Entry, Graph, Node, ResourceKind, Value
from dfc.ir.names import NameSet, identifier
from dfc.ir.rewrite import Cloner, rebuild
from dfc.ops.effects.effects import effect
from dfc.ops.effects.queues import TakeAttributes
from dfc.ops.record import Effect
from dfc.transforms.scalar.prune import needed_nodes, prune_block


def take_apart(graph: Graph, statements: Sequence[Replicate]) -> Graph:
    """The graph whose entries of these statements are two each; raises `CompileError`."""
    changed = replace(graph, entries=dict(graph.entries))
    names = NameSet([*graph.entries, *graph.tests])
    for statement in statements:
        entry = graph.entries[statement.entry]
        whole, take = entry, None
        if splits_queues(entry, statement):
            entry, take = without_takes(entry, statement, names.fresh(f"{entry.name}_take"))
        check_split(entry, statement, is_fed=take is None)
        _check_takes(entry, statement)
        _check_effects(entry, graph, statement)
        cone = gradient_cone(entry, graph.resources, statement)
        update, handed = _update(entry, cone, names.fresh(f"{entry.name}_update"), statement)
        computation = _computation(entry, handed, update, graph, statement)
        assert computation.apart is not None
        apart = replace(computation.apart, whole=whole)
        if take is not None:
            apart = replace(apart, take=take.name, taken=take.result_names)
            changed.entries[take.name] = take
        changed.entries[entry.name] = replace(computation, apart=apart)
        changed.entries[update.name] = update
    return changed


def together(graph: Graph) -> Graph:
    """The graph with the entries of the author in place of the two that were made of each."""
    apart = [entry.apart for entry in graph.entries.values() if entry.apart is not None]
    updates = {*(each.update for each in apart), *(each.take for each in apart)}
    if not updates:
        return graph
    entries = {name: entry.apart.whole if entry.apart is not None else entry for name, entry in graph.entries.items()}
    return replace(graph, entries={name: entry for name, entry in entries.items() if name not in updates})


def _check_effects(entry: Entry, graph: Graph, statement: Replicate) -> None:
    """Refuses effects that are neither reads nor updates of variables: nobody says how often, and in which order."""
    for node in walk.nodes(entry.block):
        if node.regions or not any(value.is_token for value in node.operands):
            continue
        is_variable = all(
            value.resource in graph.resources and graph.resources[value.resource].kind is ResourceKind.VARIABLE
            for value in node.operands
            if value.is_token
        )
        if not is_variable or effect(node) not in (Effect.READ, Effect.WRITE):
            title = f"`{node.op}` is not supported yet in an entry with the mode `{statement.mode}`"
            second = [(statement.setting_span("mode"), "asked for here")]
            reason = "it reads variables, computes and updates variables, and does nothing else"
            raise CompileError([error(NOT_SUPPORTED_YET, title, node.span, secondary=second, notes=(reason,))])


def _check_takes(entry: Entry, statement: Replicate) -> None:
    """Refuses takes that no step has for its own."""
    for node in walk.nodes(entry.block):
        if isinstance(node.attributes, TakeAttributes):
            title = f"a take from `{node.attributes.resource}` is not supported yet in an entry with the mode"
            second = [(statement.setting_span("mode"), "asked for here")]
            reason = f"steps have batches that are cut along `{statement.split}`: none of them takes for itself"
            problem = error(
                NOT_SUPPORTED_YET,
                f"{title} `{statement.mode}`",
                node.span,
                secondary=second,
                notes=(reason,),
                helps=batches_of_queues(statement, entry),
            )
            raise CompileError([problem])


# ------------------------------------------------------------------ the update --


def _update(entry: Entry, cone: Cone, name: str, statement: Replicate) -> tuple[Entry, tuple[Value, ...]]:
    """The entry that updates state, and the values of the whole one that it is fed."""
    block = entry.block
    tokens = [value for value in block.outputs if value.is_token]
    needed = needed_nodes(Block(block.parameters, block.nodes, tokens))
    repeated = of_sizes_and_feeds(entry, statement)
    able = {node for node in needed if node in repeated or _is_of_update(node, cone)}
    own = _reached(block, able)
    computed = {value for node in own for value in node.results}
    handed = tuple(dict.fromkeys(value for value in _inputs(own) if value not in computed))
    names = NameSet(entry.parameter_names)
    feeds = {value: Value(value.type, names.fresh(identifier(value.name.rpartition("/")[2]))) for value in handed}
    cloner = Cloner(feeds, lambda each: f"{name}/{each.removeprefix(entry.name + '/')}")
    nodes: list[Node] = []
    for node in block.nodes:
        if node in own:
            cloner.inline([node], nodes)
        else:  # it changes nothing: its effects are reads
            cloner.values.update((end, cloner.value(begin)) for end, begin in _passed(node))
    used = [value for value in block.parameters if value.is_token]
    outputs = [cloner.value(value) for value in tokens]
    updating = prune_block(Block((*feeds.values(), *used), nodes, outputs))
    dims = _symbols(feeds.values())
    unknown = next((n for n in walk.nodes(updating) if _symbols(n.results) - dims or n.op == "dim"), None)
    if unknown is not None:
        title = f"a size that only the batch decides is not supported in an update with the mode `{statement.mode}`"
        raise CompileError([error(NOT_SUPPORTED_YET, title, unknown.span)])
    return (
        Entry(
            name,
            updating,
            tuple(value.name for value in feeds.values()),
            (),
            tuple(symbol for symbol in entry.dims if symbol in dims),
            (),
            (),
            entry.span,
        ),
        handed,
    )


def _reached(block: Block, able: Collection[Node]) -> dict[Node, None]:
    """Those of the nodes that the block's tokens come from, without going through values of others."""
    needed, reached = {value for value in block.outputs if value.is_token}, list[Node]()
    for node in reversed(block.nodes):
        if node in able and not needed.isdisjoint(node.results):
            reached.append(node)
            needed.update(walk.inputs(node))
        else:
            needed.update(begin for end, begin in _passed(node) if end in needed)
    return dict.fromkeys(reversed(reached))


def _passed(node: Node) -> Iterator[tuple[Value, Value]]:
    """The tokens behind a node, each with the one before it."""
    before = {value.resource: value for value in node.operands if value.is_token}
    return ((value, before[value.resource]) for value in node.results if value.is_token)


def _is_of_update(node: Node, cone: Cone) -> bool:
    """Whether the update does it: what is no part of the way to a loss, and the reads of state."""
    return node.op == "read" or not (node in cone.nodes or _is_size(node))


def _is_size(node: Node) -> bool:
    """Whether it is made of sizes alone."""
    return not node.operands and not node.regions and (node.op == "dim" or bool(_symbols(node.results)))


def _inputs(nodes: Iterable[Node]) -> Iterable[Value]:
    return (value for node in nodes for value in walk.inputs(node) if not value.is_token)


def _symbols(values: Iterable[Value]) -> set[Symbol]:
    return {
        symbol for value in values if not value.is_token for axis in value.tensor.shape for symbol in axis.symbols()
    }


# ------------------------------------------------------------- the computation --


def _computation(entry: Entry, handed: Sequence[Value], update: Entry, graph: Graph, statement: Replicate) -> Entry:
    """The entry that computes results and what is handed to the update, from feeds and variables."""
    block, names = entry.block, NameSet(entry.parameter_names)
    read = {variable_read_by(node) for node in walk.nodes(block)} - {""}
    variables = {
        name: Value(graph.resources[name].type, names.fresh(identifier(f"current_{name}")))
        for name in graph.resources
        if name in read
    }
    values: dict[Value, Value] = {}
    nodes = rebuild(Block((), block.nodes), ReadsReplaced(variables, until_written=True), values).nodes
    outputs = [values.get(value, value) for value in (*(v for v in block.outputs if not v.is_token), *handed)]
    tokens = [value for value in block.parameters if value.is_token]
    feeds = [value for value in block.parameters if not value.is_token]
    computing = prune_block(Block((*feeds, *variables.values(), *tokens), nodes, (*outputs, *tokens)))
    effects = next((n for n in walk.nodes(computing) if any(value.is_token for value in n.operands)), None)
    if effects is not None:
        title = f"a result that depends on an update is not supported yet in the mode `{statement.mode}`"
        second = [(statement.setting_span("mode"), "asked for here")]
        raise CompileError([error(NOT_SUPPORTED_YET, title, effects.span, secondary=second)])
    used = walk.used_values(computing)
    variables = {name: value for name, value in variables.items() if value in used}
    outputs = [value for value in computing.outputs if not value.is_token]
    results = NameSet(entry.result_names)
    return replace(
        entry,
        block=Block((*feeds, *variables.values()), computing.nodes, outputs),
        parameter_names=(*entry.parameter_names, *(value.name for value in variables.values())),
        result_names=(*entry.result_names, *(results.fresh(f"{name}_handed") for name in update.parameter_names)),
        readonly=True,
        unnamed_result=False,
        apart=Apart(update.name, entry, tuple(variables), handed_by_several(entry, handed, statement)),
    )
