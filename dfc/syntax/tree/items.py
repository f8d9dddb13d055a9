"""The nodes of declarations, and the module that holds them.

`documentation` is the text of the `##` lines above an item, or behind a parameter, without the marks.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.syntax.tree.expressions import Expression, Identifier, Path, StringLiteral
from dfc.syntax.tree.nodes import Node
from dfc.syntax.tree.statements import RightHandSide, Setting, Suite
from dfc.syntax.tree.types import TypeExpression

# ------------------------------------------------------------------ parts --


@dataclass(frozen=True, slots=True, eq=False)
class GenericName(Node):
    """`N`, a dimension, or `T: float`, an element type, in the brackets behind a declared name"""

    name: Identifier
    kind: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GenericPack(Node):
    """`..S`, a whole shape"""

    name: Identifier


@dataclass(frozen=True, slots=True, eq=False)
class ValueParameter(Node):
    name: Identifier
    type: TypeExpression
    default: Expression | None = None
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class ConstParameter(Node):
    name: Identifier
    type: TypeExpression
    default: Expression | None = None
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class RefParameter(Node):
    name: Identifier
    type: TypeExpression
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class ShortBody(Node):
    """`= value`"""

    value: RightHandSide


@dataclass(frozen=True, slots=True, eq=False)
class Gradient(Node):
    """`gradient (dy) { ... }`"""

    names: tuple[Identifier, ...]
    body: Body


@dataclass(frozen=True, slots=True, eq=False)
class ModulePath(Node):
    """`std.nn`, or `.helpers` with `sibling` set"""

    parts: tuple[Identifier, ...]
    sibling: bool = False

    @property
    def text(self) -> str:
        return ("." if self.sibling else "") + ".".join(part.text for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class ImportedName(Node):
    name: Identifier
    alias: Identifier | None = None


# ------------------------------------------------------------------ items --


@dataclass(frozen=True, slots=True, eq=False)
class ImportItem(Node):
    """`import std.nn as nn`"""

    module: ModulePath
    alias: Identifier | None = None
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class FromItem(Node):
    """`from .helpers import tidy, normalise as n`"""

    module: ModulePath
    names: tuple[ImportedName, ...]
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class ConstItem(Node):
    name: Identifier
    type: TypeExpression | None
    value: Expression
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class TypeItem(Node):
    name: Identifier
    generics: tuple[Generic, ...]
    type: TypeExpression
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionItem(Node):
    """`fn`: may read state, not change it"""

    name: Identifier
    generics: tuple[Generic, ...]
    parameters: tuple[Parameter, ...]
    result: TypeExpression | None
    where: tuple[Expression, ...]
    body: Body
    gradient: Gradient | None = None
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class ProcedureItem(Node):
    """`proc`: may change state"""

    name: Identifier
    generics: tuple[Generic, ...]
    parameters: tuple[Parameter, ...]
    result: TypeExpression | None
    where: tuple[Expression, ...]
    body: Body
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class EntryItem(Node):
    """`entry`, `readonly entry`: called by the host"""

    readonly: bool
    name: Identifier
    generics: tuple[Generic, ...]
    parameters: tuple[Parameter, ...]
    result: TypeExpression | None
    where: tuple[Expression, ...]
    settings: tuple[Setting, ...]
    body: Suite
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class BlockItem(Node):
    name: Identifier
    generics: tuple[Generic, ...]
    parameters: tuple[Parameter, ...]
    where: tuple[Expression, ...]
    members: tuple[BlockMember, ...]
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class ParamItem(Node):
    """`param`: a variable that is trained"""

    name: Identifier
    type: TypeExpression
    value: RightHandSide
    settings: tuple[Setting, ...] = ()
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class VarItem(Node):
    """`var`: any other variable, an instance of a block, or a resource"""

    name: Identifier
    type: TypeExpression | None
    value: RightHandSide
    settings: tuple[Setting, ...] = ()
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class QueueItem(Node):
    name: Identifier
    type: TypeExpression
    value: Expression
    settings: tuple[Setting, ...] = ()
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class RunnerItem(Node):
    name: Identifier
    settings: tuple[Setting, ...]
    body: Suite
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class TestItem(Node):
    __test__ = False  # or pytest would collect the class

    title: StringLiteral
    body: Suite
    documentation: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class Edition(Node):
    """`dfg 1`"""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Module(Node):
    """A whole file. Its documentation stands below the edition, followed by an empty line."""

    edition: Edition | None
    items: tuple[Item, ...]
    documentation: str = field(default="", kw_only=True)


Generic: TypeAlias = GenericName | GenericPack
Parameter: TypeAlias = ValueParameter | ConstParameter | RefParameter
Body: TypeAlias = Suite | ShortBody
State: TypeAlias = ParamItem | VarItem
BlockMember: TypeAlias = ConstItem | ParamItem | VarItem | QueueItem | FunctionItem | ProcedureItem | RunnerItem
Item: TypeAlias = (
    ImportItem
    | FromItem
    | ConstItem
    | TypeItem
    | FunctionItem
    | ProcedureItem
    | BlockItem
    | ParamItem
    | VarItem
    | QueueItem
    | RunnerItem
    | EntryItem
    | TestItem
)
