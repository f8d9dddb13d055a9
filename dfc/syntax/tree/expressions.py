"""The nodes of expressions, one per alternative of the grammar.

Operators lean left: in `a + b + c` the left operand is `a + b`. Such a chain may be ten thousand operands deep
(`spine` walks it without recursion); everything else is nested at most 200 deep.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import NOWHERE, Span
from dfc.syntax.tree.nodes import Node


@dataclass(frozen=True, slots=True, eq=False)
class Identifier(Node):
    """A name where it is declared, or as a part of a path. A use of a value is a `Name`."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Path(Node):
    """`std.nn.Dense`"""

    parts: tuple[Identifier, ...]

    @property
    def text(self) -> str:
        return ".".join(part.text for part in self.parts)


# ------------------------------------------------------------------ atoms --


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """`x`"""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class IntegerLiteral(Node):
    """`10_000`, `0x1F`; `text` as written"""

    text: str
    value: int


@dataclass(frozen=True, slots=True, eq=False)
class FloatLiteral(Node):
    """`0.5`, `1e-3`; `text` as written"""

    text: str
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class StringLiteral(Node):
    """`"a\\n"`; `text` as written, with its quotes, `value` with the escapes resolved"""

    text: str
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class BooleanLiteral(Node):
    """`true`, `false`"""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class Group(Node):
    """`(a + b)`"""

    inner: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Tuple(Node):
    """`(a, b)`, `(a,)`"""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RecordField(Node):
    name: Identifier
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Record(Node):
    """`(h = a, c = b)`"""

    fields: tuple[RecordField, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral(Node):
    """`[a, b]`"""

    elements: tuple[Expression, ...]


# -------------------------------------------------------------- operators --


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Node):
    """`if a then b else c`"""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Pipe(Node):
    """`value |> stage`"""

    value: Expression
    stage: Expression
    operator_span: Span = field(default=NOWHERE, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class LogicalOr(Node):
    left: Expression
    right: Expression
    operator_span: Span = field(default=NOWHERE, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class LogicalAnd(Node):
    left: Expression
    right: Expression
    operator_span: Span = field(default=NOWHERE, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class LogicalNot(Node):
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Node):
    """`a < b`; operators `== != < <= > >=`"""

    operator: str
    left: Expression
    right: Expression
    operator_span: Span = field(default=NOWHERE, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    """`a + b`; operators `+ - * / // % @ **`"""

    operator: str
    left: Expression
    right: Expression
    operator_span: Span = field(default=NOWHERE, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Negate(Node):
    """`-a`"""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Node):
    """`a as f32`"""

    operand: Expression
    target: Path


# ---------------------------------------------------------------- postfix --


@dataclass(frozen=True, slots=True, eq=False)
class Member(Node):
    """`operand.name`"""

    operand: Expression
    name: Identifier


@dataclass(frozen=True, slots=True, eq=False)
class NamedArgument(Node):
    """`axis = 1` among the arguments of a call"""

    name: Identifier
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """`function(a, axis = 1)`"""

    function: Expression
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Node):
    """`start:stop:step` between brackets; `step` is None when there is no second colon"""

    start: Expression | None
    stop: Expression | None
    step: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class EllipsisIndex(Node):
    """`..` between brackets: all axes not mentioned"""


@dataclass(frozen=True, slots=True, eq=False)
class ShapePack(Node):
    """`..S` between brackets: a whole shape"""

    name: Identifier


@dataclass(frozen=True, slots=True, eq=False)
class NewAxis(Node):
    """`new` between brackets: an axis of size 1"""


@dataclass(frozen=True, slots=True, eq=False)
class UnknownDimension(Node):
    """`?`: a size known only at run time"""


@dataclass(frozen=True, slots=True, eq=False)
class Index(Node):
    """`operand[i, a:b, .., new]`; also dimensions after a name: `f32[B, ?]`, `Dense[784, 10]`"""

    operand: Expression
    indices: tuple[IndexItem, ...]


Literal: TypeAlias = IntegerLiteral | FloatLiteral | StringLiteral | BooleanLiteral
Target: TypeAlias = Name | Member | Call | Index
Postfix: TypeAlias = Member | Call | Index
Expression: TypeAlias = (
    Name
    | IntegerLiteral
    | FloatLiteral
    | StringLiteral
    | BooleanLiteral
    | Group
    | Tuple
    | Record
    | ListLiteral
    | Conditional
    | Pipe
    | LogicalOr
    | LogicalAnd
    | LogicalNot
    | Comparison
    | Binary
    | Negate
    | Cast
    | Member
    | Call
    | Index
)
Argument: TypeAlias = Expression | NamedArgument
IndexItem: TypeAlias = Expression | Slice | EllipsisIndex | ShapePack | NewAxis | UnknownDimension


def leftmost(expression: Expression) -> Expression | None:
    """The operand that stands first in an operator, call, member or index; None for anything else."""
    match expression:
        case Binary() | Comparison() | LogicalOr() | LogicalAnd():
            return expression.left
        case Pipe():
            return expression.value
        case Cast() | Member() | Index():
            return expression.operand
        case Call():
            return expression.function
        case _:
            return None


def spine(expression: Expression) -> list[Expression]:
    """`expression`, its leftmost operand, that one's, and so on; the last one has none.

    Handling `reversed(spine(e))` one by one visits a long chain such as `a + b + c + ...` without recursion.
    """
    chain = [expression]
    while (first := leftmost(chain[-1])) is not None:
        chain.append(first)
    return chain
