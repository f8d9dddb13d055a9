"""Which names of a kernel text are registers: those set once, where all that uses them comes after it and inside of it.

Assumes the statements of kernel text. Guarantees that a name which is left out may be set or used anywhere.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence


def registers(definition: ast.FunctionDef) -> set[str]:
    """Parameters are set where the function begins."""
    parameters = [argument.arg for argument in definition.args.args]
    counts = Counter(parameters)
    counts.update(
        node.id for node in ast.walk(definition) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    once = {name for name, count in counts.items() if count == 1}
    return once - set(_outside(definition.body, set(parameters), once))


def _outside(body: Sequence[ast.stmt], visible: set[str], once: set[str]) -> Iterator[str]:
    """Names that are used where they may not be set yet, or where they were set inside of something else."""
    for statement in body:
        match statement:
            case ast.If(test=read) | ast.While(test=read):
                inner, written = [statement.body, statement.orelse], set[str]()
            case ast.For(target=target, iter=read):
                inner, written = [statement.body], _names(target, ast.Store)
            case _:
                inner, read, written = [], statement, _names(statement, ast.Store)
        yield from (_names(read, ast.Load) & once) - visible
        for block in inner:
            yield from _outside(block, visible | written, once)
        if not inner:
            visible = visible | written


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    found = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    return {one.id for one in found if isinstance(one.ctx, context)}
