"""Prints statements, one on a line."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.syntax.printer.printing import LayoutToken, Piece, Printers, listed, optional, separated
from dfc.syntax.tree.tree import (
    Assert,
    Binder,
    Binding,
    Branch,
    CallStatement,
    Carry,
    EachMap,
    EachStatement,
    Emit,
    For,
    ForHead,
    If,
    Let,
    Loop,
    Node,
    Path,
    Rebind,
    Return,
    Suite,
    Update,
    WhileHead,
    Yield,
)


def braces(nodes: Sequence[Node]) -> list[Piece]:
    """The nodes on lines of their own between braces."""
    if not nodes:
        return ["{ }"]
    lines: list[Piece] = []
    for node in nodes:
        lines += [LayoutToken.NEWLINE, node]
    return ["{", LayoutToken.INDENT, *lines, LayoutToken.DEDENT, LayoutToken.NEWLINE, "}"]


def print_suite(node: Suite) -> list[Piece]:
    return braces(node.statements if node.final is None else (*node.statements, node.final))


def _after(paths: tuple[Path, ...]) -> list[Piece]:
    return listed(" after ", paths)


def print_let(node: Let) -> list[Piece]:
    fresh = listed("[", node.fresh, "] ")
    return ["let ", *fresh, *separated(node.binders), " = ", node.value, *_after(node.after)]


def print_rebind(node: Rebind) -> list[Piece]:
    return [*separated(node.targets), " = ", node.value, *_after(node.after)]


def print_update(node: Update) -> list[Piece]:
    return [*separated(node.targets), f" {node.operator} ", node.value, *_after(node.after)]


def print_if(node: If) -> list[Piece]:
    branches = separated(node.branches, " else ")
    return [*branches, *optional(" else ", node.otherwise)]


def print_binding(node: Binding) -> list[Piece]:
    return [node.name, " in ", node.start, *optional("..", node.stop)]


def print_carry(node: Carry) -> list[Piece]:
    return [node.name, *optional(": ", node.type), " = ", node.value]


def print_loop(node: Loop) -> list[Piece]:
    settings = listed(" with ", node.settings)
    return ["loop ", *listed("", node.carries, " "), node.head, *settings, " ", node.body]


STATEMENT_PRINTERS: Printers = {
    Suite: print_suite,
    Return: lambda node: ["return", *listed(" ", node.values)],
    Yield: lambda node: ["yield ", *separated(node.values)],
    Binder: lambda node: [node.name, *optional(": ", node.type)],
    Let: print_let,
    Rebind: print_rebind,
    Update: print_update,
    CallStatement: lambda node: [node.call, *_after(node.after)],
    Assert: lambda node: ["assert ", node.condition, *optional(", ", node.message)],
    Emit: lambda node: ["emit ", *separated(node.values)],
    Branch: lambda node: ["if ", node.condition, " ", node.body],
    If: print_if,
    Binding: print_binding,
    For: lambda node: ["for ", *separated(node.bindings), *listed(" with ", node.settings), " ", node.body],
    Carry: print_carry,
    WhileHead: lambda node: ["while ", node.condition],
    ForHead: lambda node: ["for ", *separated(node.bindings)],
    Loop: print_loop,
    EachStatement: lambda node: ["each ", *separated(node.bindings), " ", node.body],
    EachMap: lambda node: ["each ", *separated(node.bindings), " => ", node.value],
}
