"""A function of kernel text in fewer statements and blocks, before numba looks at it: most of what compiling costs is
numba's work on each of them.

Assumes functions of the grammar of `prelude/text_functions`. Guarantees the same results, the same accesses to memory
in the same order, and that what is refused for its types is refused still: each rewriting is the same arithmetic under
another name (`condensed_functions`), and what is computed although nobody asks for it can neither
fail nor be seen.

    f32(x + y)                            _add_f32(x, y)              one call instead of an operator and a cast
    f32(0.0)                              a constant                  of that type
    x if c else y, a and b                _choose(c, x, y), _both     where all of it is arithmetic: no blocks
    v = x; if c: v = a[i]                 v = _load_if(a, i, c, x)    one block instead of three for numba
    if c: a[i] = x                        _store_if(a, i, x, c)
    if c: v = f32_maximum(w, v)           v = _choose(c, .., v)       where v has a value before
    if 0 < 64: ..                         ..                          conditions on numbers alone
    v = 1; w = v; v = 2                   v_1 = 1; w = v_1; v = 2     so that few names have several definitions
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dfc_target_cuda.code.condensed_functions import condensed_function, constant
from dfc_target_cuda.kernels.prelude.intrinsics import TYPES
from dfc_target_cuda.kernels.prelude.text_functions import BUILTINS, called

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shift_left",
    ast.RShift: "shift_right",
}
_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FREE = (ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.expr_context, ast.cmpop, ast.boolop)
_FREE_OPERATORS = tuple(OPERATORS)
_CHEAP = ("minimum", "maximum", "above", "below", "fma", "abs", "bits")
"""What prelude functions that may be called for nothing are called behind their type."""
_OWN = ("_choose", "_both", "_either", *(f"_{name}_" for name in OPERATORS.values()))
_MOST_NODES = 40
"""Of what is computed although it may not be asked for."""


def condensed(definition: ast.FunctionDef) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """The function, changed in place, and what it names beside the names of the prelude: constants and functions."""
    expressions = _Expressions()
    expressions.visit(definition)
    assigned = {argument.arg for argument in definition.args.args}
    definition.body = _Suites(definition).condense(definition.body, assigned)
    _Definitions(definition).rename(definition.body)
    own = {name: condensed_function(name) for name in called(definition) if name.startswith("_")}
    _hoist(definition)
    return ast.fix_missing_locations(definition), expressions.constants | own


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


class _Expressions(ast.NodeTransformer):
    """What stands for a value by itself."""

    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id=name), args=[inside]) if name in TYPES and name != "boolean":
                return self._cast(name, inside) or node
            case _:
                return node

    def _cast(self, name: str, inside: ast.expr) -> ast.expr | None:
        if isinstance(inside, ast.BinOp) and type(inside.op) in OPERATORS:
            return _call(f"_{OPERATORS[type(inside.op)]}_{name}", inside.left, inside.right)
        value = _number(inside)
        number = None if value is None else constant(name, value)
        if number is None:
            return None
        named = f"_{name}_{len(self.constants)}"
        for known, one in self.constants.items():
            if type(one) is type(number) and one.tobytes() == number.tobytes():
                named = known
        self.constants[named] = number
        return ast.Name(named, ast.Load())

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if all(_is_free(part) for part in (node.test, node.body, node.orelse)):
            return _call("_choose", node.test, node.body, node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """From the left as long as what follows is free."""
        self.generic_visit(node)
        name = "_both" if isinstance(node.op, ast.And) else "_either"
        first, *others = node.values
        while others and _is_free(others[0]):
            first = _call(name, first, others.pop(0))
        return ast.BoolOp(node.op, [first, *others]) if others else first


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


def _is_free(node: ast.expr) -> bool:
    """Whether it can be computed for nothing: arithmetic, few steps, no memory, no division that may fail."""
    nodes = list(ast.walk(node))
    return len(nodes) <= _MOST_NODES and all(_is_free_node(one) for one in nodes)


def _is_free_node(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in TYPES or name.startswith(_OWN) or name.partition("_")[2] in _CHEAP or name in BUILTINS
        case ast.BinOp():
            return isinstance(node.op, _FREE_OPERATORS)
        case _:
            return isinstance(node, (*_FREE, *_FREE_OPERATORS, ast.unaryop))


def _counts(nodes: Sequence[ast.AST]) -> dict[str, int]:
    """How often each name stands in these."""
    uses: dict[str, int] = {}
    for node in _walk(nodes):
        if isinstance(node, ast.Name):
            uses[node.id] = uses.get(node.id, 0) + 1
    return uses


def _names(nodes: Sequence[ast.AST], context: type[ast.expr_context]) -> set[str]:
    every = (one for node in nodes for one in ast.walk(node))
    return {one.id for one in every if isinstance(one, ast.Name) and isinstance(one.ctx, context)}


class _Suites:
    """Statements under a condition."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self._uses = _counts([definition])
        self._fresh_names = 0

    def condense(self, body: Sequence[ast.stmt], assigned: set[str]) -> list[ast.stmt]:
        """`assigned`: names that surely have a value when the first statement begins."""
        condensed_body: list[ast.stmt] = []
        known = set(assigned)
        for statement in body:
            for one in self._statement(statement, known):
                condensed_body = self._joined(condensed_body, one)
                if isinstance(one, ast.Assign):
                    known |= _names(one.targets, ast.Store)
        return condensed_body or [ast.Pass()]

    def _statement(self, statement: ast.stmt, known: set[str]) -> list[ast.stmt]:
        match statement:
            case ast.If(test=test):
                taken = _decided(test)
                if taken is not None:
                    chosen = statement.body if taken else statement.orelse
                    return [one for each in chosen for one in self._statement(each, known)] if chosen else []
                statement.body = self.condense(statement.body, known)
                statement.orelse = self.condense(statement.orelse, known) if statement.orelse else []
                return self._unconditional(statement, known) or [statement]
            case ast.While() | ast.For():
                target: list[ast.AST] = [statement.target] if isinstance(statement, ast.For) else []
                inside = known | _names(target, ast.Store)
                statement.body = self.condense(statement.body, inside)
                return self._counted(statement) if isinstance(statement, ast.For) else [statement]
            case _:
                return [statement]

    def _unconditional(self, statement: ast.If, known: set[str]) -> list[ast.stmt]:
        """The same without a condition; nothing if that is not to be had."""
        if statement.orelse or not _is_free(statement.test):
            return []
        inside = _counts(statement.body)
        read = _names([statement.test], ast.Load)
        statements: list[ast.stmt] = []
        test = statement.test
        if len(statement.body) > 1 and not isinstance(test, ast.Name):
            test = ast.Name(self._fresh("_test"), ast.Load())
            statements.append(_assign(test.id, statement.test))
        for one in statement.body:
            asked = copy.deepcopy(test)  # since names of one statement are changed by themselves
            match one:
                case ast.Assign(targets=[ast.Subscript(value=ast.Name() as memory, slice=index)], value=value):
                    if not (_is_free(index) and _is_free(value)):
                        return []
                    statements.append(ast.Expr(_call("_store_if", memory, index, value, asked)))
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_free(value) and name not in read:
                    if name in known:
                        statements.append(_assign(name, _call("_choose", asked, value, ast.Name(name, ast.Load()))))
                    elif inside[name] == self._uses.get(name, 0):
                        statements.append(one)
                    else:
                        return []
                case _:
                    return []
        for sign, nodes in ((-1, [statement.test, *statement.body]), (1, statements)):
            for name, count in _counts(nodes).items():
                self._uses[name] = self._uses.get(name, 0) + sign * count
        return statements

    def _fresh(self, name: str) -> str:
        self._fresh_names += 1
        return f"{name}{self._fresh_names}"

    def _counted(self, loop: ast.For) -> list[ast.stmt]:
        """`for i in range(n)` as a `while`: numba makes an iterator of a range, in several blocks."""
        assert isinstance(loop.target, ast.Name)
        assert isinstance(loop.iter, ast.Call)
        number, stop = self._fresh("_next"), self._fresh("_stop")
        value: ast.expr = ast.Name(number, ast.Load())
        step = ast.BinOp(ast.Name(number, ast.Load()), ast.Add(), ast.Constant(1))
        first = [_assign(loop.target.id, value)] if self._uses[loop.target.id] > 1 else []
        test = ast.Compare(ast.Name(number, ast.Load()), [ast.Lt()], [ast.Name(stop, ast.Load())])
        body = [*first, _assign(number, step), *loop.body]
        start = [_assign(number, ast.Constant(0)), _assign(stop, loop.iter.args[0])]
        return [*start, ast.While(test, body, [])]

    def _joined(self, earlier: list[ast.stmt], statement: ast.stmt) -> list[ast.stmt]:
        """With `v = x` before it, `if c: v = a[i]` is one load."""
        match earlier, statement:
            case (
                [*before, ast.Assign(targets=[ast.Name(id=first)], value=otherwise)],
                ast.If(
                    test=test,
                    body=[
                        ast.Assign(
                            targets=[ast.Name(id=second)],
                            value=ast.Subscript(value=ast.Name() as memory, slice=index),
                        )
                    ],
                    orelse=[],
                ),
            ) if first == second and _is_free(test) and _is_free(index) and _is_free(otherwise):
                if first in _names([test, index], ast.Load):
                    return [*earlier, statement]
                return [*before, _assign(first, _call("_load_if", memory, index, test, otherwise))]
            case _:
                return [*earlier, statement]


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _decided(test: ast.expr) -> bool | None:
    """What a condition on numbers alone is."""
    match test:
        case ast.Compare(
            left=ast.Constant(value=int() as left), ops=[order], comparators=[ast.Constant(int() as right)]
        ):
            return _ORDERS[type(order)](left, right)
        case _:
            return None


class _Definitions:
    """Gives what a name holds until it is assigned anew, in the same suite, a name of its own."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self._count = 0
        self._taken = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}

    def rename(self, body: Sequence[ast.stmt]) -> None:
        last: dict[str, int] = {}
        for number, statement in enumerate(body):
            for inner in _suites(statement):
                self.rename(inner)
            if isinstance(statement, ast.Assign):
                for name in sorted(_names(statement.targets, ast.Store)):
                    if name in last:
                        self._give(body, name, last[name], number)
                    last[name] = number

    def _give(self, body: Sequence[ast.stmt], name: str, first: int, last: int) -> None:
        self._count += 1
        new = f"{name}_{self._count}"
        while new in self._taken:
            new += "_"
        self._taken.add(new)
        end = body[last]
        assert isinstance(end, ast.Assign)
        begin = body[first]
        assert isinstance(begin, ast.Assign)
        for node in (node for part in (begin.targets, body[first + 1 : last], [end.value]) for node in _walk(part)):
            if isinstance(node, ast.Name) and node.id == name:
                node.id = new


def _walk(parts: Sequence[ast.AST]) -> Iterator[ast.AST]:
    return (node for part in parts for node in ast.walk(part))


def _suites(statement: ast.stmt) -> list[list[ast.stmt]]:
    match statement:
        case ast.If(body=body, orelse=orelse):
            return [body, orelse]
        case ast.While(body=body) | ast.For(body=body):
            return [body]
        case _:
            return []


def _hoist(definition: ast.FunctionDef) -> None:
    """What is named or written more than once is looked up once, at the beginning: numba looks at each by itself."""
    counts: dict[tuple[type, str], int] = {}
    hoisted = _Hoisted(counts)
    hoisted.visit(definition)
    hoisted.names = {
        one: f"_{'f' if one[0] is str else 'n'}{number}"
        for number, one in enumerate(one for one, count in counts.items() if count > 1)
    }
    for statement in definition.body:
        hoisted.visit(statement)
    first = [_assign(name, _written(one)) for one, name in hoisted.names.items()]
    definition.body[:0] = first


def _written(one: tuple[type, str]) -> ast.expr:
    return ast.Name(one[1], ast.Load()) if one[0] is str else ast.Constant(int(one[1]))


class _Hoisted(ast.NodeTransformer):
    """Counts functions and integers; once they have names, puts these in their place."""

    def __init__(self, counts: dict[tuple[type, str], int]) -> None:
        self.counts, self.names = counts, dict[tuple[type, str], str]()

    def visit_Call(self, node: ast.Call) -> ast.Call:
        assert isinstance(node.func, ast.Name)
        if node.func.id != "range":
            node.func = self._named((str, node.func.id), node.func)
        node.args = [self.visit(one) for one in node.args]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._named((int, str(node.value)), node) if type(node.value) is int else node

    def _named(self, one: tuple[type, str], node: ast.expr) -> ast.expr:
        self.counts[one] = self.counts.get(one, 0) + 1
        name = self.names.get(one)
        return ast.Name(name, ast.Load()) if name else node
