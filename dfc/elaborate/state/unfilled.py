"""Queues that nobody fills: taking from one would wait for ever, so it is a mistake before the program runs.

`unfilled` (E0701) reads the text of one file only, before anything is elaborated. A queue is taken for filled if
anything puts into it, or if it is handed on as a whole. `empty_rings` (E0704) reads the graph: who puts into a queue
may first have to take from one that waits for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.source import Span
from dfc.elaborate.mistakes import Mistake, mistake
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Graph
from dfc.ops.effects.queues import PUT, TAKES, QueueAttributes, TakeAttributes
from dfc.syntax.tree import tree

TAKING = ("take", "take_up_to")
Body = tree.FunctionItem | tree.ProcedureItem | tree.EntryItem | tree.RunnerItem | tree.BlockItem | tree.TestItem
BODIES = (
    tree.FunctionItem,
    tree.ProcedureItem,
    tree.EntryItem,
    tree.RunnerItem,
    tree.BlockItem,
    tree.TestItem,
)


@dataclass(slots=True)
class _Uses:
    """What the program does with one queue."""

    methods: set[str] = field(default_factory=set[str])
    takes: list[tuple[Body, tree.Call]] = field(default_factory=list[tuple[Body, tree.Call]])
    mentions: int = 0  # of its name, the calls of its methods left out


def unfilled(module: tree.Module) -> dict[str, Mistake]:
    """By the name of the queue, what to say about it."""
    queues = {item.name.text: item for item in module.items if isinstance(item, tree.QueueItem) and not item.settings}
    if not queues:
        return {}
    bodies = [item for item in module.items if isinstance(item, BODIES)]
    mistakes: dict[str, Mistake] = {}
    for name, uses in _uses(queues, bodies).items():
        if uses.takes and "put" not in uses.methods and not uses.mentions:
            mistakes[name] = _waits_for_ever(queues[name], *uses.takes[0], bodies)
    return mistakes


def _uses(queues: dict[str, tree.QueueItem], bodies: list[Body]) -> dict[str, _Uses]:
    by_queue = {name: _Uses() for name in queues}
    for body in bodies:
        for node in tree.walk(body):
            if isinstance(node, tree.Name) and node.text in by_queue:
                by_queue[node.text].mentions += 1
            method = _method(node)
            if isinstance(node, tree.Call) and method is not None and method[0] in by_queue:
                uses = by_queue[method[0]]
                uses.mentions -= 1
                uses.methods.add(method[1])
                if method[1] in TAKING:
                    uses.takes.append((body, node))
    return by_queue


def _method(node: tree.Node) -> tuple[str, str] | None:
    """The queue and the method of `pool.take(64)`."""
    match node:
        case tree.Call(tree.Member(tree.Name(queue), name)):
            return queue, name.text
        case _:
            return None


def _waits_for_ever(queue: tree.QueueItem, body: Body, call: tree.Call, bodies: list[Body]) -> Mistake:
    name = queue.name.text
    entry = next((each for each in bodies if isinstance(each, tree.EntryItem) and body in _reached(each, bodies)), None)
    title = f"`{entry.name.text}` would wait for ever" if entry is not None else "this would wait for ever"
    put = f"{name}.put({', '.join(_fields(queue.type)) or '...'})"
    return mistake(
        "E0701",
        title,
        call.span,
        f"takes from `{name}`",
        secondary=[(queue.name.span, "nothing in the program puts anything into it")],
        helps=(f"fill it from a `runner {{ ... {put} }}`", "or from an entry that the host calls"),
    )


def _reached(entry: tree.EntryItem, bodies: list[Body]) -> list[Body]:
    """An entry, and the functions whose names it mentions, or that these mention."""
    functions = {b.name.text: b for b in bodies if isinstance(b, tree.FunctionItem | tree.ProcedureItem)}
    reached: list[Body] = [entry]
    for body in reached:
        reached += [functions.pop(name) for name in _names(body) if name in functions]
    return reached


def _names(body: Body) -> Iterator[str]:
    return (node.text for node in tree.walk(body) if isinstance(node, tree.Name))


def _fields(written: tree.TypeExpression) -> list[str]:
    if not isinstance(written, tree.TupleType):
        return []
    return [each.name.text for each in written.fields if isinstance(each, tree.NamedField)]


# ------------------------------------------------------------------- rings --


@dataclass(frozen=True, slots=True)
class _Use:
    """A take that a body does in any case, or a put that it may do, in the order of lines."""

    queue: str
    is_take: bool
    span: Span


def empty_rings(graph: Graph) -> Iterator[Diagnostic]:
    """A message for each body that waits for something out of a queue that only those put into who wait themselves."""
    bodies = [(entry, list(_queue_uses(entry.block))) for entry in graph.entries.values()]
    filled = _filled([uses for _, uses in bodies])
    puts = [(entry, use) for entry, uses in bodies for use in uses if not use.is_take]
    for entry, uses in bodies:
        stuck = next((use for use in uses if use.is_take and use.queue not in filled), None)
        filler = next((each for each in puts if stuck is not None and each[1].queue == stuck.queue), None)
        if stuck is not None and filler is not None:
            yield _starts_empty(graph, entry, stuck, *filler)


def _queue_uses(block: Block) -> Iterator[_Use]:
    """Takes of the block itself; puts also of the branches and loops inside it."""
    for node in block.nodes:
        for inner in (node, *(each for region in node.regions for each in walk.nodes(region))):
            if inner.op == PUT and isinstance(inner.attributes, QueueAttributes):
                yield _Use(inner.attributes.resource, False, inner.span)
        if node.op in TAKES and isinstance(node.attributes, TakeAttributes):
            yield _Use(node.attributes.resource, True, node.span)


def _filled(bodies: list[list[_Use]]) -> set[str]:
    """The queues into which something can come at all: each body goes as far as the first take from another one."""
    filled: set[str] = set()
    while True:
        before = len(filled)
        for uses in bodies:
            for use in uses:
                if use.is_take and use.queue not in filled:
                    break
                if not use.is_take:
                    filled.add(use.queue)
        if len(filled) == before:
            return filled


def _starts_empty(graph: Graph, entry: Entry, stuck: _Use, other: Entry, put: _Use) -> Diagnostic:
    """`other` is the first of those that would fill the queue, with its put."""
    title = f"`{stuck.queue}` stays empty: nothing is ever put into it"
    if other is entry:
        label = f"`{entry.name}` waits here for what it would put into it itself"
    else:
        label = f"`{entry.name}` waits here for `{other.name}`, which waits for something that never comes, too"
    secondary = [(graph.resources[stuck.queue].span, "starts empty"), (put.span, "the way to fill it")]
    helps = ("put a first element into it in an entry that the host calls",)
    return error("E0704", title, stuck.span, label, secondary=secondary, helps=helps)
