"""What is unknown after a statement that was given up: the names it would have introduced, and next values of loops.

Guarantees that one mistake is not followed by others about names that only it has kept from being known.
"""

from __future__ import annotations

from collections.abc import Iterator

from dfc.elaborate.context import EMITTED, Context
from dfc.syntax.tree import tree


def unknown_after(context: Context, node: tree.Node) -> Iterator[tree.Identifier | tree.Name]:
    """The names that are unknown after a statement that was given up."""
    if isinstance(node, tree.Let):
        yield from (binder.name for binder in node.binders)
        yield from node.fresh
    elif isinstance(node, tree.Rebind):
        for target in node.targets:
            if not isinstance(target, tree.Name):
                continue
            if context.loop is not None and target.text in context.loop.carries:
                context.loop.failed.add(target.text)
            elif context.scope.find(target.text) is None:
                yield target
    elif isinstance(node, tree.Emit) and context.loop is not None:
        context.loop.failed.add(EMITTED)
    elif isinstance(node, tree.If | tree.EachStatement) and context.loop is not None:
        context.loop.failed |= _bound_inside(node) & context.loop.carries.keys()


def _bound_inside(node: tree.Node) -> set[str]:
    """The names that get a next value somewhere in a statement, but for what loops in it carry themselves."""
    names: set[str] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, tree.Rebind):
            names.update(target.text for target in current.targets if isinstance(target, tree.Name))
        if not isinstance(current, tree.For | tree.Loop):
            waiting += tree.children(current)
    return names
