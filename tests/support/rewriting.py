"""pytest's rewriting of assertions, in half the time that it takes by itself; the code that it makes is the same.

pytest walks through every statement that it has written for an assertion, and gives nodes without a location
in the text that of the assertion: by a recursive generator, which makes an iterator for each level of each node, and a
function for nodes of any kind. That is three seconds for a checkout whose tests were never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from _pytest.assertion import rewrite

Location = tuple[int, int, int | None, int | None]
usual = rewrite.traverse_node


def traverse_node(node: ast.AST) -> Iterator[ast.AST]:
    """A new statement alone; whoever asks for more has given it its location, which then is that of all below it that
    have none."""
    if not isinstance(node, ast.stmt) or hasattr(node, "lineno"):
        yield from usual(node)
        return
    yield node
    _locate(node, (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset))


def _locate(node: ast.AST, location: Location) -> None:
    waiting = [node]
    while waiting:
        for field in list(vars(waiting.pop()).values()):
            for child in field if type(field) is list else (field,):
                if isinstance(child, ast.AST) and child._fields:  # not those that only name an operator
                    waiting.append(child)
                    if child._attributes and not hasattr(child, "lineno"):
                        child.lineno, child.col_offset, child.end_lineno, child.end_col_offset = location


def speed_up() -> None:
    """For all modules that pytest reads from now on."""
    rewrite.traverse_node = traverse_node
