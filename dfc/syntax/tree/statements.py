"""The nodes of statements, and of the right-hand sides that hold statements."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import NOWHERE, Span
from dfc.syntax.tree.expressions import Expression, Identifier, Path, StringLiteral, Target
from dfc.syntax.tree.nodes import Node
from dfc.syntax.tree.types import TypeExpression


@dataclass(frozen=True, slots=True, eq=False)
class Suite(Node):
    """`{ ... }`: statements, then perhaps a `return` or `yield`"""

    statements: tuple[Statement, ...]
    final: Final | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Return(Node):
    """`return a, b`; several values are always expressions"""

    values: tuple[RightHandSide, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Yield(Node):
    """`yield a, b`: the value of the block it ends"""

    values: tuple[RightHandSide, ...]


# ------------------------------------------------------ simple statements --


@dataclass(frozen=True, slots=True, eq=False)
class Binder(Node):
    """`name` or `name: type` on the left of a `let`; the name `_` discards"""

    name: Identifier
    type: TypeExpression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Let(Node):
    """`let [N] a: u8[N], b = value after y`"""

    fresh: tuple[Identifier, ...]
    binders: tuple[Binder, ...]
    value: RightHandSide
    after: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Rebind(Node):
    """`x, k = value`: the next value of loop variables"""

    targets: tuple[Target, ...]
    value: RightHandSide
    after: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Update(Node):
    """`w -= value`; operators `:= += -= *= /=`"""

    targets: tuple[Target, ...]
    operator: str
    value: RightHandSide
    after: tuple[Path, ...] = ()
    operator_span: Span = field(default=NOWHERE, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class CallStatement(Node):
    """`queue.put(x)`: a call for its effect; the parser refuses a place that is no call"""

    call: Target
    after: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Assert(Node):
    condition: Expression
    message: StringLiteral | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Emit(Node):
    values: tuple[Expression, ...]


# ----------------------------------------------------------- control flow --


@dataclass(frozen=True, slots=True, eq=False)
class Setting(Node):
    """`copies = 4` after `with`"""

    name: Identifier
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Branch(Node):
    """`if condition { ... }`, and each `else if`"""

    condition: Expression
    body: Suite


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    """At least one branch, then perhaps an `else`."""

    branches: tuple[Branch, ...]
    otherwise: Suite | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Binding(Node):
    """`x in xs`, or `i in start..stop`"""

    name: Identifier
    start: Expression
    stop: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class For(Node):
    """`for x in xs, y in ys { ... }`, perhaps `with recompute = 4`"""

    bindings: tuple[Binding, ...]
    body: Suite
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Carry(Node):
    """`k: i32 = 0` after `loop`"""

    name: Identifier
    type: TypeExpression | None
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class WhileHead(Node):
    condition: Expression


@dataclass(frozen=True, slots=True, eq=False)
class ForHead(Node):
    bindings: tuple[Binding, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Node):
    """`loop x = x0, k = 0 while c { ... }` or `loop h = h0 for x in xs { ... }`"""

    carries: tuple[Carry, ...]
    head: LoopHead
    body: Suite
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class EachStatement(Node):
    """`each w in list { ... }`"""

    bindings: tuple[Binding, ...]
    body: Suite


@dataclass(frozen=True, slots=True, eq=False)
class EachMap(Node):
    """`each w in list => value`"""

    bindings: tuple[Binding, ...]
    value: Expression


LoopHead: TypeAlias = WhileHead | ForHead
Final: TypeAlias = Return | Yield
Statement: TypeAlias = Let | Rebind | Update | CallStatement | If | For | Loop | EachStatement | Assert | Emit
RightHandSide: TypeAlias = Expression | If | For | Loop | EachMap
