"""What the printers of nodes are made of.

A printer gives the pieces of one node: texts, child nodes still to be printed, and layout. The driver in
`printer` puts them together, so no printer calls another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.syntax.tree.tree import Node


class LayoutToken(Enum):
    NEWLINE = "newline"
    INDENT = "indent"
    DEDENT = "dedent"


@dataclass(frozen=True, slots=True)
class Embedded:
    """An operand that needs parentheses if it binds less tightly than `minimum`."""

    node: Node
    minimum: int


Piece: TypeAlias = str | Node | Embedded | LayoutToken
Printers: TypeAlias = dict[type[Node], Callable[[Any], list[Piece]]]


def separated(nodes: Iterable[Piece], separator: str = ", ") -> list[Piece]:
    """The nodes with `separator` between them."""
    pieces: list[Piece] = []
    for node in nodes:
        if pieces:
            pieces.append(separator)
        pieces.append(node)
    return pieces


def optional(before: str, node: Piece | None, after: str = "") -> list[Piece]:
    """The node between two texts, or nothing."""
    return [] if node is None else [before, node, after]


def listed(before: str, nodes: Iterable[Piece], after: str = "") -> list[Piece]:
    """The nodes, separated, between two texts, or nothing if there are none."""
    pieces = separated(nodes)
    return [before, *pieces, after] if pieces else []
