"""Prints expressions and types."""

from __future__ import annotations

from dfc.syntax.printer.printing import Embedded, Piece, Printers, listed, optional, separated
from dfc.syntax.tree.tree import (
    Binary,
    BooleanLiteral,
    Call,
    Cast,
    Comparison,
    Conditional,
    EllipsisIndex,
    FloatLiteral,
    FunctionType,
    Group,
    Identifier,
    Index,
    IntegerLiteral,
    ListLiteral,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    Member,
    Name,
    NamedArgument,
    NamedField,
    Negate,
    NewAxis,
    Node,
    Path,
    Pipe,
    Record,
    RecordField,
    ShapePack,
    Slice,
    StringLiteral,
    TensorType,
    Tuple,
    TupleType,
    UnknownDimension,
)

# Loosest first, as in the grammar.
PIPE, OR, AND, NOT, COMPARE, SUM, TERM, CAST, UNARY, POWER, POSTFIX, ATOM = range(1, 13)
OPERATORS = {"+": SUM, "-": SUM, "*": TERM, "/": TERM, "//": TERM, "%": TERM, "@": TERM, "**": POWER}
LEVELS: dict[type[Node], int] = {
    Conditional: 0,
    Pipe: PIPE,
    LogicalOr: OR,
    LogicalAnd: AND,
    LogicalNot: NOT,
    Comparison: COMPARE,
    Cast: CAST,
    Negate: UNARY,
    Member: POSTFIX,
    Call: POSTFIX,
    Index: POSTFIX,
}


def precedence(node: Node) -> int:
    """How tightly a node binds; what is no operator binds most tightly."""
    if isinstance(node, Binary):
        return OPERATORS[node.operator]
    return LEVELS.get(type(node), ATOM)


def _infix(left: Node, left_minimum: int, sign: str, right: Node, right_minimum: int) -> list[Piece]:
    return [Embedded(left, left_minimum), f" {sign} ", Embedded(right, right_minimum)]


def print_binary(node: Binary) -> list[Piece]:
    level = OPERATORS[node.operator]
    if level == POWER:
        return _infix(node.left, POSTFIX, "**", node.right, UNARY)
    return _infix(node.left, level, node.operator, node.right, level + 1)


def print_conditional(node: Conditional) -> list[Piece]:
    return ["if ", Embedded(node.condition, PIPE), " then ", node.then, " else ", node.otherwise]


def print_tuple(node: Tuple) -> list[Piece]:
    return ["(", *separated(node.elements), ",)" if len(node.elements) == 1 else ")"]


def print_slice(node: Slice) -> list[Piece]:
    return [*optional("", node.start), ":", *optional("", node.stop), *optional(":", node.step)]


def print_path(node: Path) -> list[Piece]:
    return [node.text]


def print_tensor_type(node: TensorType) -> list[Piece]:
    dimensions = [Embedded(dimension, SUM) for dimension in node.dimensions]
    return [node.name, *listed("(", node.arguments, ")"), *listed("[", dimensions, "]")]


def print_function_type(node: FunctionType) -> list[Piece]:
    return ["fn(", *separated(node.parameters), ") -> ", node.result]


def print_boolean(node: BooleanLiteral) -> list[Piece]:
    return ["true" if node.value else "false"]


def print_named(node: NamedArgument | RecordField) -> list[Piece]:
    return [node.name, " = ", node.value]


def print_word(node: Identifier | Name | IntegerLiteral | FloatLiteral | StringLiteral) -> list[Piece]:
    return [node.text]


EXPRESSION_PRINTERS: Printers = {
    Identifier: print_word,
    Path: print_path,
    Name: print_word,
    IntegerLiteral: print_word,
    FloatLiteral: print_word,
    StringLiteral: print_word,
    BooleanLiteral: print_boolean,
    Group: lambda node: ["(", node.inner, ")"],
    Tuple: print_tuple,
    RecordField: print_named,
    Record: lambda node: ["(", *separated(node.fields), ")"],
    ListLiteral: lambda node: ["[", *separated(node.elements), "]"],
    Conditional: print_conditional,
    Pipe: lambda node: _infix(node.value, PIPE, "|>", node.stage, POSTFIX),
    LogicalOr: lambda node: _infix(node.left, OR, "or", node.right, AND),
    LogicalAnd: lambda node: _infix(node.left, AND, "and", node.right, NOT),
    LogicalNot: lambda node: ["not ", Embedded(node.operand, NOT)],
    Comparison: lambda node: _infix(node.left, SUM, node.operator, node.right, SUM),
    Binary: print_binary,
    Negate: lambda node: ["-", Embedded(node.operand, UNARY)],
    Cast: lambda node: [Embedded(node.operand, CAST), " as ", node.target],
    Member: lambda node: [Embedded(node.operand, POSTFIX), ".", node.name],
    NamedArgument: print_named,
    Call: lambda node: [Embedded(node.function, POSTFIX), "(", *separated(node.arguments), ")"],
    Index: lambda node: [Embedded(node.operand, POSTFIX), "[", *separated(node.indices), "]"],
    Slice: print_slice,
    EllipsisIndex: lambda node: [".."],
    ShapePack: lambda node: ["..", node.name],
    NewAxis: lambda node: ["new"],
    UnknownDimension: lambda node: ["?"],
    TensorType: print_tensor_type,
    NamedField: lambda node: [node.name, ": ", node.type],
    TupleType: lambda node: ["(", *separated(node.fields), ")"],
    FunctionType: print_function_type,
}
