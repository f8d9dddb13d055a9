"""What steps take from queues: an entry of its own, and feeds in the place of it.

    entry train(rate: f32) -> (loss: f32) {       entry train_take() -> (taken_x: f32[8]) { return staged.take() }
      let x = staged.take()                  ->   entry train(rate: f32, taken_x: f32[8]) -> (loss: f32) { .. }
      ..

The first runs where the queue is, once for each step, before any of these begins; the second is any entry without
queues. Assumes the graph as it was elaborated. Guarantees takes that depend on nothing but their queues; anything else
is a `CompileError`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.distribute.deployment.model import Replicate
from dfc.distribute.pipelines.connected import queue_names, queues_of, state_of
from dfc.distribute.separate.splitting import asked
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.names import NameSet, identifier
from dfc.ir.rewrite import Cloner, Pass, RewriteSite, rebuild
from dfc.ops.effects.queues import TAKE, TAKES


def splits_queues(entry: Entry, statement: Replicate) -> bool:
    """Whether steps get elements of queues instead of pieces of feeds."""
    return bool(queue_names(statement.split)) and {*queue_names(statement.split)} <= queues_of(entry)


def without_takes(entry: Entry, statement: Replicate, name: str) -> tuple[Entry, Entry]:
    """The entry with feeds in the place of what it takes, and the entry `name` that takes these."""
    queues = queue_names(statement.split)
    takes = [node for node in walk.nodes(entry.block) if node.op in TAKES and state_of(node) in queues]
    own = _with_draws(entry, takes)
    _check(entry, own, queues, statement)
    names = NameSet(entry.parameter_names)
    results = [value for node in own if node.op == TAKE for value in node.results if not value.is_token]
    taken = {v: Value(v.type, names.fresh(f"taken_{identifier(v.name.rpartition('/')[2])}")) for v in results}
    resources = {value.resource for node in own for value in node.results if value.is_token}
    return _fed(entry, own, taken, resources), _taking(entry, own, taken, resources, name)


def _with_draws(entry: Entry, takes: Sequence[Node]) -> list[Node]:
    """Takes, and what they are computed from, in the order of the entry."""
    needed, pending = set[Node](), list(takes)
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += [value.node for value in walk.inputs(node) if value.node is not None]
    return [node for node in entry.block.nodes if node in needed]


def _check(entry: Entry, own: Sequence[Node], queues: Collection[str], statement: Replicate) -> None:
    """Refuses takes in loops and branches, of as many elements as there are, and behind other effects or values."""
    allowed = {*queues, *(f"{name}.order" for name in queues)}
    inner = {node for node in walk.nodes(entry.block) if node.op in TAKES and state_of(node) in queues} - {*own}
    for node in (*own, *inner):
        resources = {value.resource for value in (*node.operands, *node.results) if value.is_token}
        is_fed = any(value.node is None and not value.is_token for value in node.operands)
        is_whole = all(axis.constant is not None for v in node.results if not v.is_token for axis in v.tensor.shape)
        is_take = node.op == TAKE or state_of(node) not in queues
        if node in inner or node.regions or is_fed or not is_whole or not is_take or not resources <= allowed:
            title = f"a take that depends on more than its queue is not supported in the mode `{statement.mode}`"
            note = "a step takes what it works on at its beginning: as many elements, `take(n)`, in each of them"
            raise CompileError(
                [error(NOT_SUPPORTED_YET, title, node.span, secondary=[asked(statement)], notes=(note,))]
            )


class _Fed(Pass):
    """Feeds in the place of what is taken."""

    def __init__(self, own: Collection[Node], taken: dict[Value, Value]) -> None:
        self._own, self._taken = own, taken

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node not in self._own:
            return None
        before = {value.resource: value for value in site.operands if value.is_token}
        return [  # draws are for takes alone, so that nothing uses the values in their place
            before[value.resource] if value.is_token else self._taken.get(value, value) for value in site.node.results
        ]


def _fed(entry: Entry, own: Sequence[Node], taken: dict[Value, Value], resources: Collection[str]) -> Entry:
    values: dict[Value, Value] = {}
    block = entry.block
    nodes = rebuild(Block((), block.nodes), _Fed({*own}, taken), values).nodes
    feeds = [value for value in block.parameters if not value.is_token]
    tokens = [value for value in block.parameters if value.is_token and value.resource not in resources]
    outputs = [values.get(v, v) for v in block.outputs if not v.is_token or v.resource not in resources]
    return replace(
        entry,
        block=Block((*feeds, *taken.values(), *tokens), nodes, outputs),
        parameter_names=(*entry.parameter_names, *(value.name for value in taken.values())),
    )


def _taking(
    entry: Entry, own: Sequence[Node], taken: dict[Value, Value], resources: Collection[str], name: str
) -> Entry:
    cloner = Cloner({}, lambda each: f"{name}/{each.removeprefix(entry.name + '/')}")
    nodes: list[Node] = []
    cloner.inline(own, nodes)
    parameters = [value for value in entry.block.parameters if value.is_token and value.resource in resources]
    last = {value.resource: value for value in parameters}
    last.update((value.resource, cloner.value(value)) for node in own for value in node.results if value.is_token)
    outputs = [*(cloner.value(value) for value in taken), *(last[value.resource] for value in parameters)]
    results = tuple(value.name for value in taken.values())
    return Entry(name, Block(parameters, nodes, outputs), (), results, (), (), (), entry.span)
