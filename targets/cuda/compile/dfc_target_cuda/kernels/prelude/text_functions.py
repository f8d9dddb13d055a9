"""Kernel text as functions of Python: each `def` is checked against the grammar of kernel text, then made of its code.

Assumes nothing of a text. Guarantees that what is not of that grammar is refused with the part that is not, that a
function reaches no name but those it is given, and that nothing of a text runs when it is read: a function is made of
the code object that Python's compiler makes of its `def`, and of nothing else.

    function   := def NAME(NAME, ...): statement ...
    statement  := NAME = value | NAME, ... = call | memory[value] = value | call | return
                | if value: ... [else: ...] | while value: ...
    value      := NAME | number | value OPERATOR value | not value | -value | memory[value] | call
    memory     := NAME | call
    call       := NAME(value, ...)
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any, NoReturn

from dfc.kernels.errors import CodeGenerationError

BUILTINS = frozenset(("min", "max"))
"""What Python itself gives to a text."""

_PYTHON = threading.Lock()
"""Held while Python makes or takes a syntax tree: two threads that do it at once can disturb each other's count of
recursions (`SystemError: AST constructor recursion depth mismatch`)."""

_VALUES = (ast.Name, ast.BinOp, ast.UnaryOp, ast.Load, ast.Store, ast.If, ast.While)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.LShift, ast.RShift, ast.USub, ast.Not)
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_ALLOWED = frozenset((*_VALUES, *_OPERATORS, *_ORDERS))
"""Allowed wherever they stand; nine of ten nodes are of these classes."""


def parse(source: str) -> list[ast.FunctionDef]:
    """The functions of a text. `CodeGenerationError` for what is none."""
    try:
        with _PYTHON:
            body = ast.parse(source).body
    except (SyntaxError, ValueError) as error:
        raise CodeGenerationError(f"kernel text is no Python: {error}\n{source}") from error
    for statement in body:
        if not isinstance(statement, ast.FunctionDef):
            _refuse(statement, "a text has functions alone")
    return [statement for statement in body if isinstance(statement, ast.FunctionDef)]


def functions(definitions: list[ast.FunctionDef], file: str, names: dict[str, Any]) -> dict[str, FunctionType]:
    """Functions of checked definitions, which look their names up in `names`."""
    with _PYTHON:
        whole = compile(ast.Module(list(definitions), []), file, "exec", dont_inherit=True)
    codes = [code for code in whole.co_consts if isinstance(code, CodeType)]
    return {code.co_name: FunctionType(code, names, code.co_name) for code in codes}


def check(definition: ast.FunctionDef, names: Mapping[str, Any] | set[str]) -> None:
    """Refuses what is not of the grammar, and names that are neither the text's own nor of `names`."""
    parameters = definition.args
    if parameters.posonlyargs or parameters.kwonlyargs or parameters.vararg or parameters.kwarg or parameters.defaults:
        _refuse(definition, "parameters are plain names")
    if definition.decorator_list:
        _refuse(definition, "a function is not decorated")
    nodes = nodes_of(definition)
    several = {id(one.targets[0]) for one in nodes if isinstance(one, ast.Assign)}
    for node in nodes:
        if type(node) not in _ALLOWED and not (id(node) in several and isinstance(node, ast.Tuple)):
            _check_node(node)
    used_names = [node for node in nodes if isinstance(node, ast.Name)]
    own = {argument.arg for argument in parameters.args}
    own |= {name.id for name in used_names if isinstance(name.ctx, ast.Store)}
    for name in used_names:
        if name.id not in own and name.id not in names and name.id not in BUILTINS:
            _refuse(name, "not a name of the prelude")


def nodes_of(definition: ast.FunctionDef) -> list[ast.AST]:
    """All that a function consists of, but not whether a name is read or written, in no order. `ast.walk` takes several
    times as long, and texts that are unrolled for a device have ten thousand nodes."""
    nodes: list[ast.AST] = []
    left: list[ast.AST] = [*definition.body]
    while left:
        node = left.pop()
        nodes.append(node)
        if isinstance(node, ast.Name):
            continue
        for field in node._fields:
            part = getattr(node, field, None)
            if isinstance(part, ast.AST):
                left.append(part)
            elif isinstance(part, list):
                left += [one for one in part if isinstance(one, ast.AST)]
    return nodes


def _check_node(node: ast.AST) -> None:
    """Refuses a node of a class that is allowed in some forms alone, or not at all."""
    match node:
        case ast.Assign(targets=[ast.Name() | ast.Subscript()]):
            return
        case ast.Assign(targets=[ast.Tuple(elts=elements)], value=ast.Call()):
            if not all(isinstance(one, ast.Name) for one in elements):
                _refuse(node, "several values go to several names")
        case ast.Expr(value=ast.Call()) | ast.Return(value=None):
            return
        case ast.Call(func=ast.Name(), keywords=[]):
            if any(isinstance(one, ast.Starred) for one in node.args):
                _refuse(node, "arguments are written out")
        case ast.Constant(value=int(number)):
            if not -(1 << 63) <= number < 1 << 64:
                _refuse(node, "no type has this number")
        case ast.Constant(value=float()) | ast.Compare(ops=[_]):
            return
        case ast.Subscript(value=ast.Name() | ast.Call(), slice=subscript):
            if isinstance(subscript, ast.Slice):
                _refuse(node, "memory has one index")
        case _:
            _refuse(node, "not of the grammar of kernel text")


def _refuse(node: ast.AST, why: str) -> NoReturn:
    raise CodeGenerationError(f"kernel text cannot be compiled: {why}: {ast.unparse(node)}")
