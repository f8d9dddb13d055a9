"""Tree to text: the inverse of the parser, for whole modules and for single nodes.

Guarantees that `parse(to_text(module)) == module` for every tree that a text could have, documentation included;
parentheses that precedence demands are added where the tree has no `Group`. Uses no recursion, so that long
chains print. What it prints has the layout of the formatter, but for the alignment of comments.
"""

from __future__ import annotations

from dfc.syntax.printer.print_expressions import EXPRESSION_PRINTERS, precedence
from dfc.syntax.printer.print_items import ITEM_PRINTERS
from dfc.syntax.printer.print_statements import STATEMENT_PRINTERS
from dfc.syntax.printer.printing import Embedded, LayoutToken, Piece, Printers
from dfc.syntax.tree.tree import Node

PRINTERS: Printers = {**EXPRESSION_PRINTERS, **STATEMENT_PRINTERS, **ITEM_PRINTERS}
INDENT = "  "


def to_text(node: Node) -> str:
    """The text of any node, without a line end; a module ends with one."""
    waiting: list[Piece] = [node]
    out: list[str] = []
    depth = 0
    fresh = False
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, str):
            if fresh and piece:
                out.append(INDENT * depth)
                fresh = False
            out.append(piece)
        elif isinstance(piece, LayoutToken):
            depth += {LayoutToken.INDENT: 1, LayoutToken.DEDENT: -1, LayoutToken.NEWLINE: 0}[piece]
            if piece is LayoutToken.NEWLINE:
                out.append("\n")
                fresh = True
        else:
            waiting.extend(reversed(_expand(piece)))
    return "".join(out)


def _expand(piece: Node | Embedded) -> list[Piece]:
    if isinstance(piece, Node):
        return PRINTERS[type(piece)](piece)
    pieces = PRINTERS[type(piece.node)](piece.node)
    if precedence(piece.node) < piece.minimum:
        return ["(", *pieces, ")"]
    return pieces
