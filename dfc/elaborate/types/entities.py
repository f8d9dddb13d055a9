"""What an expression can be while a program is elaborated: the closed union `Entity`.

Only `Tensor`, `Text` and `StringValue` exist at run time, as values of the graph. A number literal or constant has no
element type until it meets a tensor. A size acts as an i64 scalar, or as a dimension where one is wanted. Everything
else is gone when elaboration ends. Variables and scopes are here as well: entities hold them, and scopes hold entities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.names.roles import BindingRole
from dfc.elaborate.types.resources import QueueMethod, QueueValue, ReaderMethod, ReaderValue, RngMethod
from dfc.elaborate.types.variable import Variable
from dfc.ir.attributes import Literal
from dfc.ir.dims import Dim
from dfc.ir.dtypes import DType, DTypeVariable
from dfc.ir.graph import Value
from dfc.ir.types import TensorType
from dfc.ops.builder import Builder
from dfc.syntax.tree.tree import (
    BlockItem,
    EntryItem,
    FunctionItem,
    ProcedureItem,
    RunnerItem,
    TypeItem,
)

# -------------------------------------------------------------- run time --


@dataclass(frozen=True, slots=True)
class Tensor:
    value: Value

    @property
    def type(self) -> TensorType:
        return self.value.tensor


@dataclass(frozen=True, slots=True)
class Text:
    """A string fed by the host; it can only be the path of a checkpoint."""

    value: Value


@dataclass(frozen=True, slots=True)
class StringValue:
    """A record, or a string inside of one: where in `bytes` it is, says `location`. `reader` is the full name of the
    one that has read it. See `dfc.ops.effects.records`."""

    bytes: Value
    location: Value
    reader: str


# ---------------------------------------------------------- compile time --


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal or constant: a number adapts to the element type it meets."""

    value: bool | int | float | str


@dataclass(frozen=True, slots=True)
class Opaque:
    """A constant of a known kind (`float`, `bool`, `str`) whose value is unknown, in a body checked by itself."""

    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Untyped:
    """A pure op on numbers without an element type, such as `sqrt(2.0)`: it is computed in the type that it meets.
    `whole` if all of its numbers are whole ones; alone, it is then computed in i64. `known` if it depends on no
    constant that only a call knows."""

    build: Callable[[Builder, Sequence[Value]], Value]
    operands: tuple[Entity, ...]
    spans: OperationSpans
    shape: tuple[Dim, ...]
    whole: bool
    known: bool


@dataclass(frozen=True, slots=True)
class Size:
    """A dimension. `adapts` if it stands for an unknown constant, which takes any numeric type as literals do."""

    dim: Dim
    adapts: bool = False


@dataclass(frozen=True, slots=True)
class SizeCondition:
    """A comparison of dimensions that is not decided at compile time."""

    left: Dim
    relation: str
    right: Dim


@dataclass(frozen=True, slots=True)
class LiteralTensor:
    """A constant array, such as the value of `load`."""

    literal: Literal
    type: TensorType


@dataclass(frozen=True, slots=True)
class TupleValue:
    items: tuple[Entity, ...]
    names: tuple[str, ...] = ()
    leaves: int = field(init=False, compare=False, repr=False)  # what is left when nothing holds anything any more
    has_variables: bool = field(init=False, compare=False, repr=False)
    """Whether there is a variable in it, at any depth of tuples."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaves", _leaves(self.items))
        object.__setattr__(self, "has_variables", any(map(_is_variable, self.items)))


@dataclass(frozen=True, slots=True)
class ListValue:
    items: tuple[Entity, ...]
    leaves: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaves", _leaves(self.items))


def _is_variable(item: Entity) -> bool:
    return isinstance(item, VariableValue) or (isinstance(item, TupleValue) and item.has_variables)


def _leaves(items: tuple[Entity, ...]) -> int:
    return sum(item.leaves if isinstance(item, ListValue | TupleValue) else 1 for item in items)


@dataclass(frozen=True, slots=True)
class VariableValue:
    """A variable itself; using it as an operand reads it."""

    variable: Variable


@dataclass(frozen=True, slots=True)
class Routine:
    """A `fn` or `proc` of the program, with the scope it was declared in and dimensions given explicitly."""

    item: FunctionItem | ProcedureItem
    scope: Scope
    owner: Instance | None = None
    explicit: tuple[Dim | DType | DTypeVariable, ...] = ()

    @property
    def name(self) -> str:
        return self.item.name.text


@dataclass(frozen=True, slots=True)
class PreludeFunction:
    """A function of the prelude, or of a prelude module (`checkpoint.save`, `graph.pad`)."""

    name: str


@dataclass(frozen=True, slots=True)
class BlockClass:
    item: BlockItem
    scope: Scope
    explicit: tuple[Dim | DType | DTypeVariable, ...] = ()


@dataclass(eq=False, slots=True)
class Instance:
    """An instance of a block: its name is the path of its declaration, its scope holds the members."""

    name: str
    item: BlockItem
    scope: Scope
    state: dict[str, Entity] = field(default_factory=dict[str, "Entity"])
    recompute: bool = False  # whether the backward pass computes its calls again


@dataclass(frozen=True, slots=True)
class EntryValue:
    item: EntryItem
    scope: Scope


@dataclass(frozen=True, slots=True)
class RunnerValue:
    item: RunnerItem


@dataclass(frozen=True, slots=True)
class ModuleValue:
    name: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class PreludeModule:
    """`checkpoint`, `summary`, `debug`, `graph`: modules whose functions are part of the language."""

    name: str
    members: Mapping[str, Entity] = field(default_factory=dict[str, "Entity"])


@dataclass(frozen=True, slots=True)
class ElementType:
    dtype: DType | DTypeVariable


@dataclass(frozen=True, slots=True)
class SpecialType:
    """`int`, `float`, `str`, `string`, `rng`, `vars`, `tensors`, `quant`: types without an element type."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeValue:
    """`f32[B, 10]` as an argument."""

    type: TensorType


@dataclass(frozen=True, slots=True)
class AliasValue:
    item: TypeItem
    scope: Scope


@dataclass(frozen=True, slots=True)
class Pack:
    """The sizes a shape pack stands for."""

    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class ProgramValue:
    """`program`: all state of the program."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """What a call without a result gives."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The value of a statement that was given up; using it gives up the user silently."""


NOTHING = Nothing()
UNKNOWN = Unknown()

Entity: TypeAlias = (
    Tensor
    | Text
    | StringValue
    | Constant
    | Opaque
    | Untyped
    | Size
    | SizeCondition
    | LiteralTensor
    | TupleValue
    | ListValue
    | VariableValue
    | Routine
    | PreludeFunction
    | RngMethod
    | QueueValue
    | QueueMethod
    | ReaderValue
    | ReaderMethod
    | BlockClass
    | Instance
    | EntryValue
    | RunnerValue
    | ModuleValue
    | PreludeModule
    | ElementType
    | SpecialType
    | TypeValue
    | AliasValue
    | Pack
    | ProgramValue
    | Nothing
    | Unknown
)


# ---------------------------------------------------------------- scopes --


@dataclass(frozen=True, slots=True)
class Pending:
    """An item that is elaborated when it is first used."""

    resolve: Callable[[], Entity]


@dataclass(slots=True, eq=False)
class Binding:
    name: str
    entity: Entity | Pending
    span: Span
    role: BindingRole
    level: int = 0  # loop variables: how many loops surround it

    @property
    def value(self) -> Entity:
        """What the name stands for; resolves an item at its first use."""
        entity = self.entity
        if isinstance(entity, Pending):
            entity = entity.resolve()
            if isinstance(self.entity, Pending):
                self.entity = entity
        return entity

    @property
    def is_resolved(self) -> bool:
        return not isinstance(self.entity, Pending)


class Scope:
    """A set of names inside another one."""

    __slots__ = ("names", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Binding] = {}

    def bind(self, name: str, entity: Entity | Pending, span: Span, role: BindingRole, level: int = 0) -> Binding:
        binding = Binding(name, entity, span, role, level)
        self.names[name] = binding
        return binding

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            binding = scope.names.get(name)
            if binding is not None:
                return binding
            scope = scope.parent
        return None

    def own(self, name: str) -> Binding | None:
        return self.names.get(name)

    @property
    def outermost(self) -> Scope:
        """The prelude."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def bindings(self) -> Iterator[Binding]:
        """All visible names, inner ones first."""
        seen: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            for name, binding in scope.names.items():
                if name not in seen:
                    seen.add(name)
                    yield binding
            scope = scope.parent

    def forget(self, name: str, span: Span) -> None:
        """Binds a name whose statement was given up, so that its uses are not reported."""
        self.bind(name, Unknown(), span, BindingRole.LET)
