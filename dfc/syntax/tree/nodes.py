"""What all nodes of the syntax tree share: spans, equality, and walking.

Guarantees that trees compare by what they say, never by where it stands, and that comparing and walking are
iterative: a chain of 100,000 operands overflows no stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from dfc.deferred.dataclasses import dataclass, field_names
from dfc.diagnostics.source import NOWHERE, Span


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A piece of a program. Nodes are immutable; `span` is where it was read, or nowhere."""

    span: Span = field(default=NOWHERE, kw_only=True, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and _same(self, other)

    def __hash__(self) -> int:
        """Looks at the node and its own words only, so that it is cheap for any depth."""
        words = (getattr(self, name) for name in content_fields(type(self)))
        return hash((type(self), *(word for word in words if isinstance(word, str | int | float))))


_CONTENT: dict[type[Node], tuple[str, ...]] = {}


def content_fields(kind: type[Node]) -> tuple[str, ...]:
    """The names of the fields that count: all but spans, in the order of the text."""
    names = _CONTENT.get(kind)
    if names is None:
        names = tuple(name for name in field_names(kind) if not name.endswith("span"))
        _CONTENT[kind] = names
    return names


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below `node`, in the order of the text."""
    for name in content_fields(type(node)):
        value: object = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            for element in value:  # pyright: ignore[reportUnknownVariableType]
                if isinstance(element, Node):
                    yield element


def walk(node: Node) -> Iterator[Node]:
    """`node` and all nodes below it, parents first, in the order of the text."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(tuple(children(current))))


def _same(left: Node, right: Node) -> bool:
    waiting: list[tuple[object, object]] = [(left, right)]
    while waiting:
        one, other = waiting.pop()
        if one is other:
            continue
        if isinstance(one, Node):
            if type(one) is not type(other):
                return False
            waiting.extend((getattr(one, name), getattr(other, name)) for name in content_fields(type(one)))
        elif isinstance(one, tuple) and isinstance(other, tuple):
            if len(one) != len(other):  # pyright: ignore[reportUnknownArgumentType]
                return False
            waiting.extend(zip(one, other, strict=True))  # pyright: ignore[reportUnknownArgumentType]
        elif one != other:
            return False
    return True
