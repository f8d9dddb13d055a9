"""Queues that nobody fills: taking from one would wait for ever, so it is a mistake before the program runs (E0701).

Reads the text of one file only, before anything is elaborated. A queue is taken for filled if anything puts into it, if
it is handed on as a whole, or if it has settings, such as a container that other programs share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.elaborate.mistakes import Mistake, mistake
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
