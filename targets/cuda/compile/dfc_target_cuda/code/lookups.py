"""A function of kernel text whose names and numbers are looked up once, before numba looks at it: numba's work on each
place where one stands is most of what compiling costs.

Assumes functions of the grammar of `prelude/text_functions`. Guarantees the same calls in the same order.

    a[0] = f32_add(x, f32(0.5))        add = f32_add; a[0] = add(x, _f32_0)
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

_FLOATS = {"f32": np.float32, "f64": np.float64}


def looked_up_once(definition: ast.FunctionDef) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """The function, changed in place, and the constants that it names beside the names of the prelude."""
    constants = _Constants()
    constants.visit(definition)
    counts: dict[tuple[type, str], int] = {}

    def count(one: tuple[type, str], node: ast.expr) -> ast.expr:
        counts[one] = counts.get(one, 0) + 1
        return node

    _Lookups(count).visit(definition)
    often = [one for one, uses in counts.items() if uses > 1]
    names = {one: f"_{'f' if one[0] is str else 'n'}{number}" for number, one in enumerate(often)}
    body = _Lookups(lambda one, node: ast.Name(names[one], ast.Load()) if one in names else node)
    definition.body = [body.visit(statement) for statement in definition.body]
    first: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], _written(one)) for one, name in names.items()]
    definition.body[:0] = first
    return ast.fix_missing_locations(definition), constants.numbers


def _written(one: tuple[type, str]) -> ast.expr:
    return ast.Name(one[1], ast.Load()) if one[0] is str else ast.Constant(int(one[1]))


class _Lookups(ast.NodeTransformer):
    """Puts something in the place of each function that is called, and of each integer."""

    def __init__(self, change: Callable[[tuple[type, str], ast.expr], ast.expr]) -> None:
        self._change = change

    def visit_Call(self, node: ast.Call) -> ast.Call:
        assert isinstance(node.func, ast.Name)
        node.func = self._change((str, node.func.id), node.func)
        node.args = [self.visit(one) for one in node.args]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._change((int, str(node.value)), node) if type(node.value) is int else node


class _Constants(ast.NodeTransformer):
    """Casts of numbers that are written out, as numbers of that type."""

    def __init__(self) -> None:
        self.numbers: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id=kind), args=[inside]):
                value = _number(inside)
                constant = None if value is None else _typed(kind, value)
                return node if constant is None else self._named(kind, constant)
            case _:
                return node

    def _named(self, kind: str, constant: Any) -> ast.Name:
        for name, one in self.numbers.items():
            if type(one) is type(constant) and one.tobytes() == constant.tobytes():
                return ast.Name(name, ast.Load())
        name = f"_{kind}_{len(self.numbers)}"
        self.numbers[name] = constant
        return ast.Name(name, ast.Load())


def _number(node: ast.expr) -> int | float | None:
    """A number that is written out, with its sign."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id="inf" | "nan" as name):
            return float(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _number(operand)
            return None if value is None else -value
        case _:
            return None


def _typed(kind: str, value: float) -> Any:
    """`kind(value)` as a number that numba knows the type of; None where it is another call."""
    if kind in _FLOATS:
        with np.errstate(over="ignore"):
            return _FLOATS[kind](value) if isinstance(value, float) else None
    if kind[0] in "iu" and kind[1:].isdigit() and isinstance(value, int):
        size = int(kind[1:]) // 8
        return np.array([value % (1 << 8 * size)], f"u{size}").view(f"{kind[0]}{size}")[0]
    return None
